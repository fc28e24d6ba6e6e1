package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"sort"
)

// block goes through statements, and finds the places between them.
func (w *walk) block(list []ast.Stmt, open, end token.Pos) {
	last := w.line(open)
	for _, s := range list {
		w.mark(last, s.Pos())
		before := len(w.reader.potentials)
		w.statement(s)
		if _, ok := s.(*ast.ReturnStmt); ok && w.inner == 0 {
			w.point("end", s.Pos(), s.Pos())
		}
		w.place(s, before)
		last = w.line(s.End())
	}
	if end.IsValid() {
		w.mark(last, end)
	}
}

// mark adds the place of a mark between two statements.
func (w *walk) mark(last int, next token.Pos) {
	for _, line := range w.reader.marks[w.body.file] {
		if line >= last && line < w.line(next) {
			w.point("mark", next, next)
			return
		}
	}
}

// place gives the calls of a statement that communicate a place beside it.
func (w *walk) place(s ast.Stmt, before int) {
	for at := max(before, w.placed); at < len(w.reader.potentials); at++ {
		p := &w.reader.potentials[at]
		where := s.Pos()
		if p.meets[0].Direction == "in" && follows(s) {
			where = s.End()
		}
		if made, ok := w.make("network", where, where); ok {
			p.points = append(p.points, made)
		}
	}
	w.placed = max(w.placed, len(w.reader.potentials))
}

// follows returns whether a statement can be followed by another on its line.
func follows(s ast.Stmt) bool {
	switch s.(type) {
	case *ast.AssignStmt, *ast.ExprStmt, *ast.DeclStmt, *ast.IfStmt:
		return true
	}
	return false
}

// placeIn gives the calls of a condition that communicate a place at the start of the body.
func (w *walk) placeIn(before int, brace token.Pos) {
	for at := max(before, w.placed); at < len(w.reader.potentials); at++ {
		if made, ok := w.make("network", brace+1, brace+1); ok {
			w.reader.potentials[at].points = append(w.reader.potentials[at].points, made)
		}
	}
	w.placed = max(w.placed, len(w.reader.potentials))
}

func (w *walk) point(kind string, at, scope token.Pos) {
	if made, ok := w.make(kind, at, scope); ok {
		w.reader.facts.Points = append(w.reader.facts.Points, made)
	}
}

// make makes a place with what can be read there.
func (w *walk) make(kind string, at, scope token.Pos) (Point, bool) {
	where := w.reader.fset.Position(at)
	point := Point{Kind: kind, File: w.body.file, Offset: where.Offset, Line: where.Line, Function: w.body.function, Visible: []Visible{}}
	if w.body.pkg == nil || w.body.pkg.Scope() == nil {
		return point, false
	}
	inside := w.body.pkg.Scope().Innermost(scope)
	if inside == nil {
		return point, false
	}
	w.receiver(&point)
	objects := []*types.Var{}
	for name, object := range w.body.info.Defs {
		v, ok := object.(*types.Var)
		if !ok || v.IsField() || v.Parent() == nil || v.Parent() == w.body.pkg.Scope() || name.Name == "_" {
			continue
		}
		if v.Pos() < w.body.decl.Pos() || v.Pos() >= at || !v.Parent().Contains(scope) {
			continue
		}
		// A variable of the same name may hide it.
		if _, found := inside.LookupParent(v.Name(), at); found == object {
			objects = append(objects, v)
		}
	}
	sort.Slice(objects, func(i, j int) bool { return objects[i].Pos() < objects[j].Pos() })
	for _, v := range objects {
		if number := w.object(v); number >= 0 {
			point.Visible = append(point.Visible, Visible{number, v.Name()})
		}
	}
	return point, true
}

// receiver adds the fields of the receiver.
func (w *walk) receiver(point *Point) {
	d := w.body.decl
	if d.Recv == nil || len(d.Recv.List[0].Names) == 0 || d.Recv.List[0].Names[0].Name == "_" {
		return
	}
	object := w.body.info.Defs[d.Recv.List[0].Names[0]]
	if object == nil {
		return
	}
	pointer, ok := object.Type().(*types.Pointer)
	if !ok {
		return
	}
	named, ok := pointer.Elem().(*types.Named)
	if !ok {
		return
	}
	point.Receiver = &Receiver{named.Obj().Name(), object.Name()}
	w.fieldsOf(point, object.Name(), named, 0)
}

// fieldsOf adds the fields of a structure and of those that are embedded in it.
func (w *walk) fieldsOf(point *Point, name string, t types.Type, depth int) {
	structure, ok := t.Underlying().(*types.Struct)
	if !ok || depth > 2 {
		return
	}
	for i := 0; i < structure.NumFields(); i++ {
		field := structure.Field(i)
		expression := "everhold.Field(" + name + ", \"" + field.Name() + "\")"
		if number, known := w.reader.vars[w.reader.key(field)]; known {
			point.Visible = append(point.Visible, Visible{number, expression})
		}
		// The parts of the node that are structures of their own.
		if named := structureOf(field.Type()); named != nil && !field.Embedded() && depth == 0 && w.isOwnType(named) {
			w.fieldsOf(point, expression, named, 2)
		}
		if field.Embedded() {
			if pointer, ok := field.Type().(*types.Pointer); ok {
				w.fieldsOf(point, name, pointer.Elem(), depth+1)
			} else {
				w.fieldsOf(point, name, field.Type(), depth+1)
			}
		}
	}
}

// structureOf returns the structure that a field is or points to.
func structureOf(t types.Type) *types.Named {
	if pointer, ok := t.(*types.Pointer); ok {
		t = pointer.Elem()
	}
	named, ok := t.(*types.Named)
	if !ok {
		return nil
	}
	if _, ok := named.Underlying().(*types.Struct); !ok {
		return nil
	}
	return named
}

func (w *walk) isOwnType(named *types.Named) bool { return w.reader.isOwn(named.Obj()) }

func max(a, b int) int {
	if a > b {
		return a
	}
	return b
}
