package main

import (
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// callable is what a call needs to know of a function.
type callable struct {
	params  []int
	results []int
	name    string
}

// body is a function that is to be walked through.
type body struct {
	function int
	file     int
	decl     *ast.FuncDecl
	info     *types.Info
	pkg      *types.Package
}

// potential is a call that communicates if one of the variables is a connection.
type potential struct {
	through []int
	meets   []Meet
	points  []Point
}

// reader reads the packages of a module.
type reader struct {
	root       string
	entries    map[string]string
	fset       *token.FileSet
	facts      Facts
	vars       map[string]int // by the place of the definition
	fieldOwner map[string]string
	callables  map[string]*callable // by the place of the definition
	methods    map[string][]string  // places, by name
	bodies     []body
	potentials []potential
	carried    map[int]bool
	marks      map[int][]int   // lines, by file
	grpc       map[string]bool // files that import gRPC
}

func newReader(root string, entries map[string]string) *reader {
	return &reader{
		root: root, entries: entries, fset: token.NewFileSet(),
		facts: Facts{Files: []File{}, Skipped: []Skipped{}, Functions: []Function{}, Vars: []Var{},
			Flows: []Flow{}, Meets: []Meet{}, Points: []Point{}, Begins: []Begin{}},
		vars: map[string]int{}, fieldOwner: map[string]string{}, callables: map[string]*callable{},
		methods: map[string][]string{}, grpc: map[string]bool{}, carried: map[int]bool{}, marks: map[int][]int{},
	}
}

var foreign = map[string]bool{"vendor": true, "third_party": true, "node_modules": true}

func (r *reader) read() error {
	folders := map[string][]string{}
	err := filepath.Walk(r.root, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		name := info.Name()
		if info.IsDir() && path != r.root {
			if foreign[name] {
				r.skip(path+"/", "it is code of others")
				return filepath.SkipDir
			}
			if name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				r.skip(path+"/", "it is a module of its own")
				return filepath.SkipDir
			}
		}
		if strings.HasSuffix(name, ".go") && info.Mode().IsRegular() {
			folders[filepath.Dir(path)] = append(folders[filepath.Dir(path)], path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	names := []string{}
	for folder := range folders {
		names = append(names, folder)
	}
	sort.Strings(names)
	imports := importer.ForCompiler(r.fset, "source", nil)
	for _, folder := range names {
		sort.Strings(folders[folder])
		r.folder(folders[folder], imports)
	}
	for _, b := range r.bodies {
		(&walk{reader: r, body: b}).run()
	}
	r.connect()
	return nil
}

func (r *reader) skip(path, reason string) {
	if short, err := filepath.Rel(r.root, path); err == nil {
		path = short
	}
	r.facts.Skipped = append(r.facts.Skipped, Skipped{path, reason})
}

// folder reads the package in a folder.
func (r *reader) folder(paths []string, imports types.Importer) {
	packages := map[string][]*ast.File{}
	numbers := map[*ast.File]int{}
	order := []string{}
	for _, path := range paths {
		file, number, ok := r.file(path)
		if !ok {
			continue
		}
		if strings.HasSuffix(path, "_test.go") {
			r.tests(file, number)
			continue
		}
		name := file.Name.Name
		if packages[name] == nil {
			order = append(order, name)
		}
		packages[name] = append(packages[name], file)
		numbers[file] = number
	}
	for _, name := range order {
		info := &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{},
			Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
			Implicits: map[ast.Node]types.Object{}, Scopes: map[ast.Node]*types.Scope{},
		}
		// What cannot be imported is unknown, and the rest still counts.
		config := types.Config{Importer: imports, Error: func(error) {}, FakeImportC: true}
		pkg, _ := config.Check(name, r.fset, packages[name], info)
		for _, file := range packages[name] {
			r.declarations(file, numbers[file], info, pkg)
		}
	}
}

// file parses a file.
func (r *reader) file(path string) (*ast.File, int, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		r.skip(path, err.Error())
		return nil, 0, false
	}
	if fits, err := build.Default.MatchFile(filepath.Dir(path), filepath.Base(path)); err == nil && !fits {
		r.skip(path, "its build tags or its name exclude it here")
		return nil, 0, false
	}
	file, err := parser.ParseFile(r.fset, path, text, parser.ParseComments)
	if err != nil {
		r.skip(path, "it does not parse: "+err.Error())
		return nil, 0, false
	}
	for _, spec := range file.Imports {
		if strings.Contains(spec.Path.Value, "google.golang.org/grpc") {
			r.grpc[path] = true
		}
	}
	lines := strings.Split(string(text), "\n")
	for at := 0; at < len(lines) && at < 20; at++ {
		if strings.HasPrefix(lines[at], "// Code generated") {
			r.skip(path, "it is generated")
			// Its types are needed, its functions are not walked through.
			return file, -1, !strings.HasSuffix(path, "_test.go")
		}
	}
	number, count := len(r.facts.Files), 0
	for at, line := range lines {
		line = strings.TrimSpace(line)
		words := strings.TrimSpace(strings.TrimPrefix(line, "//"))
		if strings.HasPrefix(line, "//") && (strings.HasPrefix(words, "@observe") || strings.HasPrefix(words, "@dump")) {
			r.marks[number] = append(r.marks[number], at+1)
		}
		if line != "" && !strings.HasPrefix(line, "//") {
			count++
		}
	}
	if strings.HasSuffix(path, "_test.go") {
		count = 0
	}
	short, _ := filepath.Rel(r.root, path)
	r.facts.Files = append(r.facts.Files, File{short, count})
	return file, number, true
}

// tests finds the functions with which runs begin.
func (r *reader) tests(file *ast.File, number int) {
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv != nil || f.Body == nil || !strings.HasPrefix(f.Name.Name, "Test") || f.Name.Name == "TestMain" {
			continue
		}
		r.begin(f, number)
	}
}

func (r *reader) begin(f *ast.FuncDecl, number int) {
	offset := r.fset.Position(f.Body.Lbrace).Offset + 1
	r.facts.Begins = append(r.facts.Begins, Begin{number, offset, f.Name.Name})
}

// declarations collects the types and functions of a file.
func (r *reader) declarations(file *ast.File, number int, info *types.Info, pkg *types.Package) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if structure, ok := s.Type.(*ast.StructType); ok {
						r.fields(s.Name.Name, structure, number, info)
					}
				case *ast.ValueSpec:
					for _, name := range s.Names {
						if object, ok := info.Defs[name].(*types.Var); ok && name.Name != "_" {
							r.define(object, "global", "", number)
						}
					}
				}
			}
		case *ast.FuncDecl:
			if d.Body != nil && number >= 0 {
				r.function(d, number, info, pkg)
			}
		}
	}
}

func (r *reader) fields(owner string, structure *ast.StructType, number int, info *types.Info) {
	for _, field := range structure.Fields.List {
		for _, name := range field.Names {
			if object, ok := info.Defs[name].(*types.Var); ok {
				r.define(object, "field", owner, number)
			}
		}
		if len(field.Names) == 0 {
			if name := embedded(field.Type); name != nil {
				if object, ok := info.Defs[name].(*types.Var); ok {
					r.define(object, "field", owner, number)
				}
			}
		}
	}
}

func embedded(t ast.Expr) *ast.Ident {
	switch t := t.(type) {
	case *ast.Ident:
		return t
	case *ast.StarExpr:
		return embedded(t.X)
	case *ast.SelectorExpr:
		return t.Sel
	}
	return nil
}

// key returns the place of a definition, which is the same however often the file was read.
func (r *reader) key(object types.Object) string {
	return r.fset.Position(object.Pos()).String() + " " + object.Name()
}

// define makes the variable of an object.
func (r *reader) define(object *types.Var, kind, owner string, file int) int {
	key := r.key(object)
	if at, known := r.vars[key]; known {
		return at
	}
	line := r.fset.Position(object.Pos()).Line
	if file < 0 {
		file = 0
	}
	r.facts.Vars = append(r.facts.Vars, Var{object.Name(), kind, owner, file, line, isHandle(object.Type())})
	r.vars[key] = len(r.facts.Vars) - 1
	return r.vars[key]
}

// hidden makes a variable of the analysis.
func (r *reader) hidden(name, kind, owner string, file, line int, t types.Type) int {
	r.facts.Vars = append(r.facts.Vars, Var{name, kind, owner, file, line, t != nil && isHandle(t)})
	return len(r.facts.Vars) - 1
}

func (r *reader) function(d *ast.FuncDecl, number int, info *types.Info, pkg *types.Package) {
	object, ok := info.Defs[d.Name].(*types.Func)
	if !ok {
		return
	}
	name, owner := d.Name.Name, (*string)(nil)
	if d.Recv != nil && len(d.Recv.List) > 0 {
		if t := embedded(base(d.Recv.List[0].Type)); t != nil {
			owner = &t.Name
			name = t.Name + "." + name
		}
	}
	if d.Name.Name == "main" && pkg != nil && pkg.Name() == "main" && d.Recv == nil {
		r.begin(d, number)
	}
	r.facts.Functions = append(r.facts.Functions, Function{name, owner})
	c := &callable{name: name}
	signature := object.Type().(*types.Signature)
	for i := 0; i < signature.Params().Len(); i++ {
		c.params = append(c.params, r.define(signature.Params().At(i), "param", name, number))
	}
	line := r.fset.Position(d.Pos()).Line
	for i := 0; i < signature.Results().Len(); i++ {
		result := signature.Results().At(i)
		if result.Name() != "" && result.Name() != "_" {
			c.results = append(c.results, r.define(result, "local", name, number))
		} else {
			c.results = append(c.results, r.hidden("result of "+name, "return", name, number, line, result.Type()))
		}
	}
	key := r.key(object)
	r.callables[key] = c
	if d.Recv != nil {
		r.methods[d.Name.Name] = append(r.methods[d.Name.Name], key)
	}
	r.bodies = append(r.bodies, body{len(r.facts.Functions) - 1, number, d, info, pkg})
	r.entry(c, signature, d, number, line)
}

// base removes type parameters.
func base(t ast.Expr) ast.Expr {
	switch t := t.(type) {
	case *ast.IndexExpr:
		return t.X
	case *ast.IndexListExpr:
		return t.X
	case *ast.StarExpr:
		return base(t.X)
	}
	return t
}

// connect decides which variables are connections, and so which calls communicate.
func (r *reader) connect() {
	next := map[int][]int{}
	for at, flow := range r.facts.Flows {
		if r.carried[at] {
			next[flow.From] = append(next[flow.From], flow.To)
		}
	}
	waiting := []int{}
	for at := range r.facts.Vars {
		if r.facts.Vars[at].IsHandle {
			waiting = append(waiting, at)
		}
	}
	for len(waiting) > 0 {
		at := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		for _, to := range next[at] {
			if !r.facts.Vars[to].IsHandle {
				r.facts.Vars[to].IsHandle = true
				waiting = append(waiting, to)
			}
		}
	}
	for _, p := range r.potentials {
		communicates := len(p.through) == 0
		for _, at := range p.through {
			communicates = communicates || r.facts.Vars[at].IsHandle
		}
		if communicates {
			r.facts.Meets = append(r.facts.Meets, p.meets...)
			r.facts.Points = append(r.facts.Points, p.points...)
		}
	}
	meets := []Meet{}
	for _, meet := range r.facts.Meets {
		if !r.facts.Vars[meet.Var].IsHandle {
			meets = append(meets, meet)
		}
	}
	r.facts.Meets = meets
}
