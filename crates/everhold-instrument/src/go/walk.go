package main

import (
	"go/ast"
	"go/token"
	"go/types"
)

// walk goes through the body of one function.
type walk struct {
	reader *reader
	body   body
	name   string
	// The number of function literals around, and the innermost one.
	inner   int
	literal *ast.FuncLit
	placed  int
	// The variables that decide whether the present statement runs.
	controls []int
}

func (w *walk) run() {
	w.name = w.reader.facts.Functions[w.body.function].Name
	w.placed = len(w.reader.potentials)
	w.block(w.body.decl.Body.List, w.body.decl.Body.Lbrace, w.body.decl.Body.Rbrace)
	if len(w.body.decl.Body.List) == 0 || reached(w.body.decl.Body.List[len(w.body.decl.Body.List)-1]) {
		if w.body.decl.Type.Results == nil {
			w.point("end", w.body.decl.Body.Rbrace, w.body.decl.Body.Rbrace)
		}
	}
}

func (w *walk) line(pos token.Pos) int { return w.reader.fset.Position(pos).Line }

// variable returns the variable of an identifier, or -1.
func (w *walk) variable(name *ast.Ident) int {
	object := w.body.info.Defs[name]
	if object == nil {
		object = w.body.info.Uses[name]
	}
	return w.object(object)
}

func (w *walk) object(object types.Object) int {
	v, ok := object.(*types.Var)
	if !ok || v.Name() == "_" || v.Pkg() == nil {
		return -1
	}
	if at, known := w.reader.vars[w.reader.key(v)]; known {
		return at
	}
	if v.IsField() || v.Parent() == v.Pkg().Scope() {
		return -1
	}
	return w.reader.define(v, "local", w.name, w.body.file)
}

// flow records that values flow into a variable.
func (w *walk) flow(from []int, to int, how string, pos token.Pos, carries bool) {
	if to < 0 {
		return
	}
	for _, at := range from {
		if at >= 0 && at != to {
			if carries {
				w.reader.carried[len(w.reader.facts.Flows)] = true
			}
			w.reader.facts.Flows = append(w.reader.facts.Flows, Flow{at, to, how, w.body.file, w.line(pos)})
		}
	}
}

// isShared returns whether copies of a value share what they refer to, and its fields do not tell.
func isShared(t types.Type) bool {
	if t == nil {
		return false
	}
	switch u := t.Underlying().(type) {
	case *types.Map, *types.Chan, *types.Slice:
		return true
	case *types.Pointer:
		named, ok := u.Elem().(*types.Named)
		if !ok {
			return true
		}
		// The fields of types of the package are variables of their own.
		_, isStruct := named.Underlying().(*types.Struct)
		return !isStruct || named.Obj().Pkg() == nil
	}
	return false
}

func (w *walk) typeOf(e ast.Expr) types.Type {
	if tv, ok := w.body.info.Types[e]; ok {
		return tv.Type
	}
	if name, ok := e.(*ast.Ident); ok {
		if object := w.body.info.Defs[name]; object != nil {
			return object.Type()
		}
		if object := w.body.info.Uses[name]; object != nil {
			return object.Type()
		}
	}
	return nil
}

// both records a flow, and the one back if the value is shared.
func (w *walk) both(from []int, to int, t types.Type, how string, pos token.Pos) {
	w.flow(from, to, how, pos, true)
	if isShared(t) && to >= 0 {
		for _, at := range from {
			if at >= 0 && w.reader.facts.Vars[at].Kind != "call" && w.reader.facts.Vars[at].Kind != "return" {
				w.flow([]int{to}, at, how, pos, false)
			}
		}
	}
}

// under goes through what runs only if the variables have certain values.
func (w *walk) under(deciding []int, inside func()) {
	before := w.controls
	w.controls = append(append([]int{}, before...), deciding...)
	inside()
	w.controls = before
}

// decided records that a change of the state depends on what was decided before.
func (w *walk) decided(to []int, pos token.Pos) {
	for _, at := range to {
		if kind := w.reader.facts.Vars[at].Kind; kind == "field" || kind == "global" {
			w.flow(w.controls, at, "decides", pos, false)
		}
	}
}

func (w *walk) statement(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.AssignStmt:
		w.assign(s)
	case *ast.DeclStmt:
		w.declaration(s)
	case *ast.ExprStmt:
		w.expr(s.X)
	case *ast.SendStmt:
		value := w.expr(s.Value)
		w.flow(value, w.first(w.places(s.Chan)), "sent on the channel", s.Pos(), true)
		w.all(w.places(s.Chan), value, "sent on the channel", s.Pos())
	case *ast.IncDecStmt:
		w.expr(s.X)
		w.decided(w.places(s.X), s.Pos())
	case *ast.GoStmt:
		w.expr(s.Call)
	case *ast.DeferStmt:
		w.expr(s.Call)
	case *ast.ReturnStmt:
		w.returns(s)
	case *ast.BlockStmt:
		w.block(s.List, s.Lbrace, s.Rbrace)
	case *ast.LabeledStmt:
		w.statement(s.Stmt)
	default:
		w.control(s)
	}
}

func (w *walk) control(s ast.Stmt) {
	before := len(w.reader.potentials)
	switch s := s.(type) {
	case *ast.IfStmt:
		if s.Init != nil {
			w.statement(s.Init)
		}
		deciding := w.expr(s.Cond)
		w.placeIn(before, s.Body.Lbrace)
		w.under(deciding, func() {
			w.statement(s.Body)
			if s.Else != nil {
				w.statement(s.Else)
			}
		})
	case *ast.ForStmt:
		if s.Init != nil {
			w.statement(s.Init)
		}
		if s.Cond != nil {
			w.expr(s.Cond)
		}
		w.placeIn(before, s.Body.Lbrace)
		if s.Post != nil {
			w.statement(s.Post)
		}
		w.statement(s.Body)
	case *ast.RangeStmt:
		value := w.expr(s.X)
		for _, target := range []ast.Expr{s.Key, s.Value} {
			if target != nil {
				w.all(w.places(target), value, "taken from", s.Pos())
			}
		}
		w.placeIn(before, s.Body.Lbrace)
		w.statement(s.Body)
	case *ast.SwitchStmt:
		if s.Init != nil {
			w.statement(s.Init)
		}
		deciding := []int{}
		if s.Tag != nil {
			deciding = w.expr(s.Tag)
		}
		w.under(deciding, func() { w.statement(s.Body) })
	case *ast.TypeSwitchStmt:
		w.typeSwitch(s)
	case *ast.SelectStmt:
		w.statement(s.Body)
	case *ast.CaseClause:
		deciding := []int{}
		for _, e := range s.List {
			deciding = append(deciding, w.expr(e)...)
		}
		w.under(deciding, func() { w.block(s.Body, s.Colon, token.NoPos) })
	case *ast.CommClause:
		if s.Comm != nil {
			w.statement(s.Comm)
		}
		w.block(s.Body, s.Colon, token.NoPos)
	}
}

func (w *walk) typeSwitch(s *ast.TypeSwitchStmt) {
	if s.Init != nil {
		w.statement(s.Init)
	}
	var value []int
	switch a := s.Assign.(type) {
	case *ast.AssignStmt:
		value = w.expr(a.Rhs[0])
	case *ast.ExprStmt:
		value = w.expr(a.X)
	}
	for _, clause := range s.Body.List {
		// Each clause has a variable of its own type.
		if object := w.body.info.Implicits[clause]; object != nil {
			w.flow(value, w.object(object), "taken apart", clause.Pos(), true)
		}
	}
	w.statement(s.Body)
}

func (w *walk) returns(s *ast.ReturnStmt) {
	values := [][]int{}
	for _, e := range s.Results {
		values = append(values, w.expr(e))
	}
	if w.inner > 0 {
		return
	}
	c := w.reader.callables[w.reader.key(w.body.info.Defs[w.body.decl.Name])]
	if c == nil {
		return
	}
	for at, result := range c.results {
		if len(values) == len(c.results) {
			w.flow(values[at], result, "returned", s.Pos(), true)
		} else if len(values) == 1 {
			w.flow(values[0], result, "returned", s.Pos(), true)
		}
	}
}

func (w *walk) declaration(s *ast.DeclStmt) {
	decl, ok := s.Decl.(*ast.GenDecl)
	if !ok {
		return
	}
	for _, spec := range decl.Specs {
		if v, ok := spec.(*ast.ValueSpec); ok {
			for at, name := range v.Names {
				to := w.variable(name)
				if len(v.Values) > 0 {
					value := w.expr(v.Values[min(at, len(v.Values)-1)])
					w.both(value, to, w.typeOf(name), "assigned", v.Pos())
				}
			}
		}
	}
}

func (w *walk) assign(s *ast.AssignStmt) {
	if len(s.Lhs) == len(s.Rhs) {
		for at := range s.Lhs {
			value := w.expr(s.Rhs[at])
			w.expr(s.Lhs[at])
			if isError(w.typeOf(s.Lhs[at])) {
				continue
			}
			for i, to := range w.places(s.Lhs[at]) {
				if i == 0 {
					w.both(value, to, w.typeOf(s.Rhs[at]), "assigned", s.Pos())
				} else {
					// A connection in a structure does not make the structure a connection.
					w.flow(value, to, "assigned", s.Pos(), false)
				}
			}
			w.decided(w.places(s.Lhs[at]), s.Pos())
		}
		return
	}
	value := w.expr(s.Rhs[0])
	for _, target := range s.Lhs {
		// The error or the flag of several results says little of the values.
		t := w.typeOf(target)
		if isError(t) || t != nil && t.String() == "bool" && target != s.Lhs[0] {
			continue
		}
		w.all(w.places(target), value, "assigned", s.Pos())
	}
}

func isError(t types.Type) bool { return t != nil && t.String() == "error" }

func (w *walk) all(to, from []int, how string, pos token.Pos) {
	for i, at := range to {
		w.flow(from, at, how, pos, i == 0)
	}
}

func (w *walk) first(from []int) int {
	if len(from) == 0 {
		return -1
	}
	return from[0]
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}

// expr returns the variables of which the value of an expression is made.
func (w *walk) expr(e ast.Expr) []int {
	switch e := e.(type) {
	case *ast.Ident:
		if at := w.variable(e); at >= 0 {
			return []int{at}
		}
	case *ast.SelectorExpr:
		return w.selector(e)
	case *ast.CallExpr:
		return w.call(e)
	case *ast.BinaryExpr:
		return append(w.expr(e.X), w.expr(e.Y)...)
	case *ast.UnaryExpr:
		return w.expr(e.X)
	case *ast.StarExpr:
		return w.expr(e.X)
	case *ast.ParenExpr:
		return w.expr(e.X)
	case *ast.IndexExpr:
		w.expr(e.Index)
		return w.expr(e.X)
	case *ast.SliceExpr:
		return w.expr(e.X)
	case *ast.TypeAssertExpr:
		return w.expr(e.X)
	case *ast.KeyValueExpr:
		return append(w.expr(e.Key), w.expr(e.Value)...)
	case *ast.CompositeLit:
		return w.literalValue(e)
	case *ast.FuncLit:
		w.inner++
		before := w.literal
		w.literal = e
		w.block(e.Body.List, e.Body.Lbrace, e.Body.Rbrace)
		w.literal = before
		w.inner--
	}
	return nil
}

func (w *walk) selector(e *ast.SelectorExpr) []int {
	if at := w.variable(e.Sel); at >= 0 {
		if w.isReceiver(e.X) {
			return []int{at}
		}
		return append([]int{at}, w.expr(e.X)...)
	}
	return w.expr(e.X)
}

// isReceiver returns whether an expression is the receiver of the method: its fields are what
// counts.
func (w *walk) isReceiver(e ast.Expr) bool {
	name, ok := e.(*ast.Ident)
	if !ok || w.body.decl.Recv == nil || len(w.body.decl.Recv.List[0].Names) == 0 {
		return false
	}
	return w.body.info.Uses[name] == w.body.info.Defs[w.body.decl.Recv.List[0].Names[0]]
}

func (w *walk) literalValue(e *ast.CompositeLit) []int {
	found := []int{}
	for _, part := range e.Elts {
		pair, ok := part.(*ast.KeyValueExpr)
		if !ok {
			found = append(found, w.notHandles(w.expr(part))...)
			continue
		}
		value := w.expr(pair.Value)
		if name, ok := pair.Key.(*ast.Ident); ok {
			if field := w.variable(name); field >= 0 && w.reader.facts.Vars[field].Kind == "field" {
				w.both(value, field, w.typeOf(pair.Value), "assigned", pair.Pos())
			}
		} else {
			w.expr(pair.Key)
		}
		found = append(found, w.notHandles(value)...)
	}
	return found
}

// notHandles leaves out connections: a structure with one is not a connection.
func (w *walk) notHandles(from []int) []int {
	found := []int{}
	for _, at := range from {
		if !w.reader.facts.Vars[at].IsHandle {
			found = append(found, at)
		}
	}
	return found
}

// places returns the variables that change when an expression is assigned to.
func (w *walk) places(e ast.Expr) []int {
	switch e := e.(type) {
	case *ast.Ident:
		if at := w.variable(e); at >= 0 {
			return []int{at}
		}
	case *ast.SelectorExpr:
		at := w.variable(e.Sel)
		if at < 0 {
			return w.places(e.X)
		}
		found := []int{at}
		if !w.isReceiver(e.X) {
			// The local variable of which it is a field changes too.
			for _, owner := range w.places(e.X) {
				if w.reader.facts.Vars[owner].Kind != "field" {
					found = append(found, owner)
				}
			}
		}
		return found
	case *ast.IndexExpr:
		return w.places(e.X)
	case *ast.SliceExpr:
		return w.places(e.X)
	case *ast.StarExpr:
		return w.places(e.X)
	case *ast.ParenExpr:
		return w.places(e.X)
	case *ast.UnaryExpr:
		return w.places(e.X)
	case *ast.TypeAssertExpr:
		return w.places(e.X)
	case *ast.CallExpr:
		if s, ok := e.Fun.(*ast.SelectorExpr); ok {
			return w.places(s.X)
		}
	}
	return nil
}

// reached returns whether the end of a statement can be reached.
func reached(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
		return false
	case *ast.ForStmt:
		return s.Cond != nil
	case *ast.ExprStmt:
		if call, ok := s.X.(*ast.CallExpr); ok {
			name, ok := call.Fun.(*ast.Ident)
			return !ok || name.Name != "panic"
		}
	case *ast.LabeledStmt:
		return reached(s.Stmt)
	case *ast.SelectStmt:
		return len(s.Body.List) > 0
	}
	return true
}

// base name of a function in a call, and its receiver if it is a method.
func callee(e ast.Expr) (string, ast.Expr) {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name, nil
	case *ast.SelectorExpr:
		return e.Sel.Name, e.X
	case *ast.ParenExpr:
		return callee(e.X)
	case *ast.IndexExpr:
		return callee(e.X)
	}
	return "", nil
}
