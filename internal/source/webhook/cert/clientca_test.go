package cert

import (
	"crypto/x509"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The pool has the CAs of all files, and of each file at least one.
func TestClientCAs(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	var paths []string
	var all []*x509.Certificate
	for _, name := range []string{"first.crt", "second.crt"} {
		ca := made(t, now).ca.Leaf
		paths, all = append(paths, filepath.Join(dir, name)), append(all, ca)
		writeFile(t, paths[len(paths)-1], pemOf(ca))
	}
	pool, err := ClientCAs(paths)
	if err != nil {
		t.Fatal(err)
	}
	for i, ca := range append(all, made(t, now).ca.Leaf) {
		_, err := ca.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		if signed := i < len(paths); (err == nil) != signed {
			t.Errorf("certificate %d: %v", i, err)
		}
	}
	empty := filepath.Join(dir, "empty.crt")
	writeFile(t, empty, []byte("garbage"))
	for _, path := range []string{empty, filepath.Join(dir, "absent.crt")} {
		if _, err := ClientCAs([]string{paths[0], path}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("error %v does not name %s", err, path)
		}
	}
}
