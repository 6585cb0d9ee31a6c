package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

// sources parses every Go file of the repository that is not a test, by folder.
func sources(t *testing.T) (*token.FileSet, map[string][]*ast.File) {
	t.Helper()
	top := root(t)
	files := token.NewFileSet()
	byDir := map[string][]*ast.File{}
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && path != top && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(top, filepath.Dir(path))
		byDir[dir] = append(byDir[dir], file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, byDir
}

func TestOnePackageComment(t *testing.T) {
	files, byDir := sources(t)
	for dir, parsed := range byDir {
		var documented []string
		for _, file := range parsed {
			if file.Doc != nil {
				documented = append(documented, filepath.Base(files.Position(file.Pos()).Filename))
			}
			wantComment(t, dir, file)
		}
		sort.Strings(documented)
		if len(documented) != 1 {
			t.Errorf("%s has %d package comments %v, want exactly one", dir, len(documented), documented)
		}
	}
}

// wantComment checks that a package comment begins as godoc expects it.
func wantComment(t *testing.T, dir string, file *ast.File) {
	if file.Doc == nil {
		return
	}
	want := "Package " + file.Name.Name + " "
	if file.Name.Name == "main" {
		want = "Command " + filepath.Base(dir) + " "
	}
	if text := file.Doc.Text(); !strings.HasPrefix(text, want) && !(file.Name.Name == "main" && strings.HasPrefix(text, "Command ")) {
		t.Errorf("%s: the package comment begins %q, want %q", dir, firstLine(text), want)
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// Start-up work belongs in main, where a reader looks for it and a test can leave it out.
func TestNoInit(t *testing.T) {
	files, byDir := sources(t)
	for _, parsed := range byDir {
		for _, file := range parsed {
			for _, declaration := range file.Decls {
				function, ok := declaration.(*ast.FuncDecl)
				if ok && function.Recv == nil && function.Name.Name == "init" {
					t.Errorf("%s: init functions are not allowed", files.Position(function.Pos()))
				}
			}
		}
	}
}

func TestSizes(t *testing.T) {
	const maxFile, maxFunction = 400, 60
	files, byDir := sources(t)
	for _, parsed := range byDir {
		for _, file := range parsed {
			if lines := files.Position(file.End()).Line; lines > maxFile {
				t.Errorf("%s has %d lines, want at most %d", files.Position(file.Pos()).Filename, lines, maxFile)
			}
			for _, declaration := range file.Decls {
				function, ok := declaration.(*ast.FuncDecl)
				if !ok {
					continue
				}
				lines := files.Position(function.End()).Line - files.Position(function.Pos()).Line + 1
				if lines > maxFunction {
					t.Errorf("%s: %s has %d lines, want at most %d", files.Position(function.Pos()), function.Name.Name, lines, maxFunction)
				}
			}
		}
	}
}

// Only the programs under cmd may end the process.
func TestNoExit(t *testing.T) {
	files, byDir := sources(t)
	for dir, parsed := range byDir {
		for _, file := range parsed {
			ast.Inspect(file, func(node ast.Node) bool {
				selector, ok := node.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				pkg, ok := selector.X.(*ast.Ident)
				if ok && pkg.Name == "os" && selector.Sel.Name == "Exit" && !mayExit(dir, file) {
					t.Errorf("%s: os.Exit outside a main package", files.Position(node.Pos()))
				}
				return true
			})
		}
	}
}

// mayExit reports whether a file of dir may call os.Exit: programs, and package daemon on a second signal.
func mayExit(dir string, file *ast.File) bool { return file.Name.Name == "main" || dir == "daemon" }
