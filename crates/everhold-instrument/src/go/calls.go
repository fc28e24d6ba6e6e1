package main

import (
	"go/ast"
	"go/token"
	"go/types"
)

func (w *walk) call(e *ast.CallExpr) []int {
	name, receiver := callee(e.Fun)
	if tv, ok := w.body.info.Types[e.Fun]; ok && tv.IsType() {
		return w.expr(e.Args[0])
	}
	args := [][]int{}
	for _, arg := range e.Args {
		args = append(args, w.expr(arg))
	}
	if name == "append" && receiver == nil {
		found := []int{}
		for _, arg := range args {
			found = append(found, arg...)
		}
		return found
	}
	if name == "copy" && receiver == nil && len(args) == 2 {
		w.all(w.places(e.Args[0]), args[1], "copied", e.Pos())
		return args[1]
	}
	if _, ok := e.Fun.(*ast.FuncLit); ok {
		return w.literalCall(e, args)
	}
	result := w.reader.hidden(name, "call", w.name, w.body.file, w.line(e.Pos()), w.resultType(e))
	known := w.known(e.Fun)
	if len(known) > 0 {
		for _, c := range known {
			w.knownCall(e, c, args, result)
		}
		return []int{result}
	}
	return w.foreign(e, name, receiver, args, result)
}

func (w *walk) literalCall(e *ast.CallExpr, args [][]int) []int {
	literal := e.Fun.(*ast.FuncLit)
	at := 0
	for _, field := range literal.Type.Params.List {
		for _, name := range field.Names {
			if at < len(args) {
				w.flow(args[at], w.variable(name), "passed to the closure", e.Pos(), true)
			}
			at++
		}
	}
	return w.expr(literal)
}

func (w *walk) resultType(e *ast.CallExpr) types.Type {
	t := w.typeOf(e)
	if tuple, ok := t.(*types.Tuple); ok {
		if tuple.Len() == 0 {
			return nil
		}
		return tuple.At(0).Type()
	}
	return t
}

// known returns the functions of the module that a call may mean.
func (w *walk) known(fun ast.Expr) []*callable {
	var name *ast.Ident
	switch f := fun.(type) {
	case *ast.Ident:
		name = f
	case *ast.SelectorExpr:
		name = f.Sel
	case *ast.ParenExpr:
		return w.known(f.X)
	case *ast.IndexExpr:
		return w.known(f.X)
	default:
		return nil
	}
	object, ok := w.body.info.Uses[name].(*types.Func)
	if !ok {
		return nil
	}
	if c := w.reader.callables[w.reader.key(object)]; c != nil {
		return []*callable{c}
	}
	signature := object.Type().(*types.Signature)
	if signature.Recv() == nil || !types.IsInterface(signature.Recv().Type()) {
		return nil
	}
	// The interfaces of the standard library are those of connections.
	if object.Pkg() == nil || w.body.pkg == nil || !w.reader.isOwn(object) {
		return nil
	}
	found := []*callable{}
	for _, key := range w.reader.methods[name.Name] {
		if c := w.reader.callables[key]; len(c.params) == signature.Params().Len() {
			found = append(found, c)
		}
	}
	return found
}

// isOwn returns whether an object is defined in the module.
func (r *reader) isOwn(object types.Object) bool {
	name := r.fset.Position(object.Pos()).Filename
	return len(name) > len(r.root) && name[:len(r.root)] == r.root
}

func (w *walk) knownCall(e *ast.CallExpr, c *callable, args [][]int, result int) {
	for at, arg := range args {
		if len(c.params) == 0 {
			break
		}
		param := c.params[min(at, len(c.params)-1)]
		how := "argument of " + c.name
		w.both(arg, param, w.typeOf(e.Args[at]), how, e.Args[at].Pos())
		if unary, ok := e.Args[at].(*ast.UnaryExpr); ok && unary.Op == token.AND {
			w.all(w.places(unary.X), []int{param}, "set by "+c.name, e.Pos())
		}
	}
	for _, from := range c.results {
		w.flow([]int{from}, result, "returned by "+c.name, e.Pos(), true)
	}
}

// foreign records the flows of a call of a function outside of the module.
func (w *walk) foreign(e *ast.CallExpr, name string, receiver ast.Expr, args [][]int, result int) []int {
	through, values, exprs := []int{}, args, e.Args
	isPackage := false
	if id, ok := receiver.(*ast.Ident); ok {
		_, isPackage = w.body.info.Uses[id].(*types.PkgName)
	}
	var owner []int
	surely := false
	if receiver != nil && !isPackage {
		owner = w.expr(receiver)
		through = owner
		if _, ok := receiver.(*ast.SelectorExpr); ok && len(owner) > 0 {
			// The field is the connection, and not what it is a field of.
			through = owner[:1]
		}
		if t := w.typeOf(receiver); t != nil && isHandle(t) {
			surely = true
		}
	} else if isPackage && w.isClientFunction(receiver.(*ast.Ident), name) {
		surely = true
	} else if isPackage && len(args) > 0 {
		through, values, exprs = args[0], args[1:], e.Args[1:]
		if t := w.typeOf(e.Args[0]); t != nil && isHandle(t) {
			surely = true
		}
	}
	if surely {
		through = nil
	}
	isIO := (surely || len(through) > 0) && (reads[name] || writes[name])
	isIO = isIO && (isPackage || name != "Error" && name != "Redirect")
	if isIO {
		w.communicates(e, name, through, values, exprs, result, isPackage)
	}
	carries := !isIO || name == "Accept"
	carries = carries && mayCarry(w.resultType(e))
	w.flow(owner, result, "through "+name, e.Pos(), carries)
	if !selects[name] {
		for _, arg := range args {
			w.flow(arg, result, "through "+name, e.Pos(), carries)
		}
	}
	if puts[name] && receiver != nil && !isPackage {
		for _, arg := range args {
			for _, to := range w.places(receiver) {
				w.flow(arg, to, "put by "+name, e.Pos(), false)
			}
		}
	}
	w.fill(e, name, owner, args)
	return []int{result}
}

// isClientFunction returns whether a function of a package communicates by itself.
func (w *walk) isClientFunction(pkg *ast.Ident, name string) bool {
	imported, ok := w.body.info.Uses[pkg].(*types.PkgName)
	if !ok || imported.Imported().Path() != "net/http" {
		return false
	}
	return name == "Get" || name == "Post" || name == "PostForm" || name == "Head"
}

// communicates records that a call communicates if it is given a connection.
func (w *walk) communicates(e *ast.CallExpr, name string, through []int, values [][]int, exprs []ast.Expr, result int, isPackage bool) {
	line := w.line(e.Pos())
	add := func(direction string, vars []int) {
		p := potential{through: through}
		for _, at := range vars {
			p.meets = append(p.meets, Meet{at, direction, name, w.body.file, line})
		}
		if len(p.meets) > 0 {
			w.reader.potentials = append(w.reader.potentials, p)
		}
	}
	if writes[name] {
		sent := []int{}
		for at, value := range values {
			// The last argument of a call is filled with the answer.
			if (name == "Call" || name == "Invoke") && at == len(values)-1 {
				continue
			}
			sent = append(sent, value...)
		}
		for _, at := range sent {
			w.flow(w.controls, at, "decides", e.Pos(), false)
		}
		add("out", sent)
	}
	if reads[name] {
		got := []int{result}
		for at, expr := range exprs {
			if t := w.typeOf(expr); at == len(exprs)-1 || !writes[name] {
				if fills(expr, t) {
					got = append(got, w.places(expr)...)
				}
			}
		}
		add("in", got)
	}
}

// fills returns whether a call can change what an argument refers to.
func fills(e ast.Expr, t types.Type) bool {
	if unary, ok := e.(*ast.UnaryExpr); ok && unary.Op == token.AND {
		return true
	}
	if t == nil {
		return false
	}
	switch t.Underlying().(type) {
	case *types.Pointer, *types.Slice, *types.Map, *types.Interface:
		return true
	}
	return false
}

// fill records that arguments by reference are filled from the others.
func (w *walk) fill(e *ast.CallExpr, name string, owner []int, args [][]int) {
	for at, arg := range e.Args {
		unary, ok := arg.(*ast.UnaryExpr)
		if !ok || unary.Op != token.AND {
			continue
		}
		for _, to := range w.places(unary.X) {
			w.flow(owner, to, "filled by "+name, e.Pos(), false)
			for other, value := range args {
				if other != at {
					w.flow(value, to, "filled by "+name, e.Pos(), false)
				}
			}
		}
	}
}
