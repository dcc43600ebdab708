package cert

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// brought is what a user brings.
type brought struct{ cert, key, ca []byte }

func newPair(t *testing.T) brought {
	t.Helper()
	return pairOf(t, time.Now())
}

// pairOf is a pair that was made at a time.
func pairOf(t *testing.T, at time.Time) brought {
	t.Helper()
	by := made(t, at)
	c, err := makeServing(at, by.ca, []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	key, err := pemOfKey(c)
	if err != nil {
		t.Fatal(err)
	}
	return brought{pemOf(c.Leaf), key, pemOf(by.ca.Leaf)}
}

func (p brought) write(t *testing.T, dir string) {
	t.Helper()
	for name, text := range map[string][]byte{"tls.crt": p.cert, "tls.key": p.key, "ca.crt": p.ca} {
		writeFile(t, filepath.Join(dir, name), text)
	}
}

func writeFile(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func filesIn(dir string) FilesOptions {
	return FilesOptions{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: filepath.Join(dir, "ca.crt"),
		For: "webhook", Log: slog.New(slog.DiscardHandler)}
}

// shows waits until a Source has the bundle of a pair, and then its certificate.
func shows(t *testing.T, s *Source, p brought) {
	t.Helper()
	becomes(t, s, func(bundle []byte) bool { return bytes.Equal(bundle, p.ca) })
	if !bytes.Equal(pemOf(leaf(t, s)), p.cert) {
		t.Error("the certificate is another one than the bundle belongs to")
	}
}

// Secrets are mounted as links through the link ..data, which is replaced.
func TestFilesAreReloaded(t *testing.T) {
	mount, one, two, three := t.TempDir(), newPair(t), newPair(t), newPair(t)
	publish := func(p brought, name string) (dir string) {
		dir = filepath.Join(mount, "..2030_"+name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		p.write(t, dir)
		link := filepath.Join(mount, "..data_tmp")
		if err := os.Symlink(filepath.Base(dir), link); err != nil {
			t.Fatal(err)
		}
		old, _ := filepath.EvalSymlinks(filepath.Join(mount, "..data"))
		if err := os.Rename(link, filepath.Join(mount, "..data")); err != nil {
			t.Fatal(err)
		}
		if old != "" {
			os.RemoveAll(old)
		}
		return dir
	}
	publish(one, "1")
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(mount, name)); err != nil {
			t.Fatal(err)
		}
	}
	o := filesIn(mount)
	log, lines := record(t)
	o.Log = log
	s, err := Files(o)
	if err != nil {
		t.Fatal(err)
	}
	shows(t, s, one)
	dir := publish(two, "2") // before it runs
	run(t, s)
	shows(t, s, two)

	// A bad file keeps the old certificate.
	writeFile(t, filepath.Join(dir, "tls.key"), one.key)
	lines.says("cannot be reloaded")
	shows(t, s, two)
	writeFile(t, filepath.Join(dir, "tls.key"), two.key)
	publish(three, "3")
	shows(t, s, three)
}

func TestFilesWarn(t *testing.T) {
	dir, one, two := t.TempDir(), newPair(t), newPair(t)
	one.write(t, dir)
	writeFile(t, filepath.Join(dir, "ca.crt"), two.ca)
	o := filesIn(dir)
	log, lines := record(t)
	o.Log = log
	if _, err := Files(o); err != nil {
		t.Fatal(err)
	}
	lines.says("signed by unknown authority")

	pairOf(t, time.Now().Add(-100*day)).write(t, dir)
	for _, o.CA = range []string{o.CA, ""} {
		if _, err := Files(o); err != nil {
			t.Fatal(err)
		}
	}
	lines.says("has expired")
	if n := lines.count(slog.LevelWarn); n != 3 {
		t.Errorf("%d warnings", n)
	}
}

func TestFilesErrors(t *testing.T) {
	good, other := newPair(t), newPair(t)
	for _, row := range []struct {
		what   string
		change func(dir string)
		want   string
	}{
		{"no certificate", func(dir string) { os.Remove(filepath.Join(dir, "tls.crt")) },
			`cannot read the webhook certificate: open DIR/tls.crt: no such file or directory: mount the Secret there`},
		{"no key", func(dir string) { os.Remove(filepath.Join(dir, "tls.key")) },
			`cannot read the webhook certificate: open DIR/tls.key`},
		{"no CA", func(dir string) { os.Remove(filepath.Join(dir, "ca.crt")) }, `cannot read the webhook certificate: open DIR/ca.crt`},
		{"another key", func(dir string) { writeFile(t, filepath.Join(dir, "tls.key"), other.key) },
			`cannot use the webhook certificate "DIR/tls.crt" with the private key "DIR/tls.key"`},
		{"an empty CA", func(dir string) { writeFile(t, filepath.Join(dir, "ca.crt"), nil) },
			`the webhook CA file "DIR/ca.crt" contains no PEM certificate: it must have the CA`},
	} {
		dir := t.TempDir()
		good.write(t, dir)
		row.change(dir)
		_, err := Files(filesIn(dir))
		if want := strings.ReplaceAll(row.want, "DIR", dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", row.what, err, want)
		}
	}
}

// With cert-manager there is no CA to give.
func TestFilesWithoutCA(t *testing.T) {
	dir := t.TempDir()
	newPair(t).write(t, dir)
	o := filesIn(dir)
	o.CA = ""
	s, err := Files(o)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Bundle()) > 0 {
		t.Error("there is a bundle")
	}
}
