package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strings"
)

// Violation is one place where a rule is broken.
type Violation struct {
	// Where is a file with or without a line, or a package.
	Where string
	// What is wrong, and the limit or the remedy.
	What string
}

func (v Violation) String() string { return v.Where + ": " + v.What }

// File is one Go file of the module.
type File struct {
	// Path is relative to the module's root, with slashes.
	Path  string
	Test  bool
	Lines int
	AST   *ast.File
	fset  *token.FileSet
}

// Dir is the package's folder: its import path below the module's.
func (f *File) Dir() string { return path.Dir(f.Path) }

// At makes a violation of a place in this file.
func (f *File) At(n ast.Node, format string, args ...any) Violation {
	where := fmt.Sprintf("%s:%d", f.Path, f.fset.Position(n.Pos()).Line)
	return Violation{where, fmt.Sprintf(format, args...)}
}

// lines is the number of lines that a node covers.
func (f *File) lines(n ast.Node) int {
	return f.fset.Position(n.End()).Line - f.fset.Position(n.Pos()).Line + 1
}

// Tree is what the rules look at.
type Tree struct {
	// Go are the Go files of the module that no tool generated.
	Go []*File
	// Text is the content of every text file, by path.
	Text map[string]string
	// Binary are the paths of the other files.
	Binary map[string]bool
}

// NewTree reads the files named by paths. Those of other modules in the tree are in Text only.
func NewTree(fsys fs.FS, paths []string) (*Tree, error) {
	t := &Tree{Text: map[string]string{}, Binary: map[string]bool{}}
	fset := token.NewFileSet()
	nested := nestedModules(paths)
	for _, p := range paths {
		content, err := fs.ReadFile(fsys, p)
		if err != nil {
			return nil, fmt.Errorf("read tree: %w", err)
		}
		text := string(content)
		if strings.ContainsRune(text, 0) {
			t.Binary[p] = true
			continue
		}
		t.Text[p] = text
		if path.Ext(p) != ".go" || nested(p) || strings.Contains(p, "testdata/") {
			continue
		}
		parsed, err := parser.ParseFile(fset, p, content, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("read tree: %w", err)
		}
		if ast.IsGenerated(parsed) {
			continue
		}
		t.Go = append(t.Go, &File{Path: p, Test: strings.HasSuffix(p, "_test.go"), Lines: strings.Count(text, "\n"), AST: parsed, fset: fset})
	}
	return t, nil
}

// nestedModules tells of a path whether it belongs to a module below the root's.
func nestedModules(paths []string) func(string) bool {
	var roots []string
	for _, p := range paths {
		if path.Base(p) == "go.mod" && p != "go.mod" {
			roots = append(roots, path.Dir(p)+"/")
		}
	}
	return func(p string) bool {
		for _, root := range roots {
			if strings.HasPrefix(p, root) {
				return true
			}
		}
		return false
	}
}

// functions calls visit for each function declaration with a body.
func (f *File) functions(visit func(*ast.FuncDecl)) {
	for _, d := range f.AST.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			visit(fn)
		}
	}
}

// importName is the name under which the file knows the package of that path, or "" where it does not import it.
func (f *File) importName(importPath string) string {
	for _, spec := range f.AST.Imports {
		if strings.Trim(spec.Path.Value, `"`) != importPath {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(importPath)
	}
	return ""
}

// uses calls visit for each mention pkg.Name of an imported standard package.
func (f *File) uses(importPath string, visit func(sel *ast.SelectorExpr)) {
	name := f.importName(importPath)
	if name == "" {
		return
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == name {
				visit(sel)
			}
		}
		return true
	})
}
