package debug

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// A hook has the user of the operator, and cannot put a socket of its own in the place of the operator's.
func TestReplacedSocket(t *testing.T) {
	dial := func(path string) error {
		conn, err := Place{Socket: path, Chosen: true}.Dial(context.Background())
		if err == nil {
			conn.Close()
		}
		return err
	}
	listen := func(path string) {
		t.Helper()
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		t.Cleanup(func() { l.Close() })
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, replace := range map[string]func(dir, path string){
		"another one at its path":   func(_, path string) { must(os.Rename(path, path+".moved")); listen(path) },
		"another one after removal": func(_, path string) { must(os.Remove(path)); listen(path) },
		"one that was moved there": func(dir, path string) {
			listen(filepath.Join(dir, "other"))
			must(os.Rename(filepath.Join(dir, "other"), path))
		},
		"a link to one elsewhere": func(dir, path string) {
			listen(filepath.Join(dir, "other"))
			must(os.Remove(path))
			must(os.Symlink(filepath.Join(dir, "other"), path))
		},
		"a relative one": func(dir, path string) {
			must(os.Remove(path))
			t.Chdir(dir)
			listen(filepath.Base(path))
		},
		"another directory": func(dir, path string) {
			must(os.Rename(dir, dir+".moved"))
			must(os.Mkdir(dir, 0o700))
			listen(path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "s") // short enough for a socket
			must(err)
			t.Cleanup(func() { os.RemoveAll(dir); os.RemoveAll(dir + ".moved") })
			path := filepath.Join(dir, "debug socket")
			operator, err := listenUnix(path)
			must(err)
			defer operator.Close()
			if err := dial(path); err != nil {
				t.Fatalf("before: %v", err)
			}
			link := dir + "-link"
			must(os.Symlink(dir, link))
			defer os.Remove(link)
			if err := dial(filepath.Join(link, "debug socket")); err != nil {
				t.Fatalf("by a link: %v", err)
			}
			replace(dir, path)
			if err := dial(path); !errors.Is(err, errReplaced) {
				t.Errorf("after: %v", err)
			}
		})
	}
}
