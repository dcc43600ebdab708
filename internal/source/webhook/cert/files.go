package cert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"
)

// FilesOptions of a Files Source. Cert and Key are required.
type FilesOptions struct {
	// Paths of PEM files. Without CA the Bundle is empty.
	Cert, Key, CA string
	// For names the purpose of the certificate in messages; empty means "Webhook".
	For string
	Log *slog.Logger
}

// Files returns a Source that reads files, and reloads them when they change. Invalid files are logged, and the previous
// ones stay in use.
func Files(o FilesOptions) (*Source, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f := &files{opts: o, what: o.For}
	if o.For == "" {
		f.opts.For, f.what, f.otherwise = "Webhook", "webhook", ", or set no certificate files to have the operator create certificates"
	}
	f.changed, f.rotate = make(chan struct{}), f.run
	pair, err := f.load()
	if err != nil {
		return nil, err
	}
	f.warn(pair)
	return &f.Source, nil
}

type files struct {
	Source
	opts FilesOptions
	// what is For inside a sentence, otherwise is the alternative to files.
	what, otherwise string

	// The constructor owns these fields, and then Run.

	// text is the current content.
	text filesText
	// failure is the last logged error, empty while the files are valid.
	failure string
}

// filesText is the content of the files.
type filesText struct{ cert, key, ca string }

// run is Source.Run.
func (f *files) run(ctx context.Context) error {
	paths := []string{f.opts.Cert, f.opts.Key}
	if f.opts.CA != "" {
		paths = append(paths, f.opts.CA)
	}
	return followFiles(ctx, f.opts.Log, paths, f.reload)
}

func (f *files) reload() {
	pair, err := f.load()
	switch {
	case err != nil && f.failure != err.Error(): // the files change one after the other, which may report the same error several times
		f.failure = err.Error()
		f.opts.Log.Error(f.opts.For+" certificate cannot be reloaded, the last one stays in use", "error", f.failure)
	case pair != nil:
		f.opts.Log.Info(f.opts.For+" certificate was reloaded", "file", f.opts.Cert, "certificateExpires", pair.Leaf.NotAfter)
		f.warn(pair)
	}
}

// load shows what is in the files, and returns it; nil if that has been shown before.
func (f *files) load() (*tls.Certificate, error) {
	text, err := f.read()
	if err != nil {
		return nil, err
	}
	pair, err := f.parse(text)
	if err != nil || f.failure == "" && text == f.text {
		return nil, err
	}
	f.failure, f.text = "", text
	f.show(pair, []byte(text.ca), [2]string{})
	return pair, nil
}

// warn logs certificates that clients will reject.
func (f *files) warn(pair *tls.Certificate) {
	leaf := pair.Leaf
	if !validAt(leaf, time.Now()) {
		f.opts.Log.Warn(f.opts.For+" certificate is not valid now, clients will reject it: replace the file", "file", f.opts.Cert,
			"from", leaf.NotBefore, "until", leaf.NotAfter)
		return
	}
	roots := x509.NewCertPool()
	if f.opts.CA == "" || !roots.AppendCertsFromPEM([]byte(f.text.ca)) {
		return
	}
	intermediates := x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			intermediates.AddCert(c)
		}
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates}); err != nil {
		f.opts.Log.Warn(f.opts.For+" certificate is not signed by the CA, clients will reject it: replace one of the files",
			"file", f.opts.Cert, "ca", f.opts.CA, "error", err.Error())
	}
}

func (f *files) read() (text filesText, err error) {
	for _, file := range []struct {
		what, path string
		into       *string
	}{{"certificate", f.opts.Cert, &text.cert}, {"private key", f.opts.Key, &text.key}, {"CA", f.opts.CA, &text.ca}} {
		if file.path == "" && file.what == "CA" {
			continue
		}
		content, err := os.ReadFile(file.path)
		if errors.Is(err, fs.ErrNotExist) {
			return text, fmt.Errorf("cannot read the %s %s: there is no file %q: mount the Secret there%s", f.what, file.what, file.path,
				f.otherwise)
		} else if err != nil {
			return text, fmt.Errorf("cannot read the %s %s: %w", f.what, file.what, err)
		}
		*file.into = string(content)
	}
	return text, nil
}

func (f *files) parse(t filesText) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair([]byte(t.cert), []byte(t.key))
	if err != nil {
		return nil, fmt.Errorf("cannot use the %s certificate %q with the private key %q: both must be PEM and belong together: %w", f.what,
			f.opts.Cert, f.opts.Key, err)
	}
	if f.opts.CA != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(t.ca)) {
		return nil, fmt.Errorf("the webhook CA file %q contains no PEM certificate: it must have the CA that signed %q", f.opts.CA, f.opts.Cert)
	}
	return &pair, nil
}
