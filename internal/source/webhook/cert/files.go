package cert

import (
	"bytes"
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
	if o.For == "" {
		o.For = "Webhook"
	}
	f := &files{opts: o}
	text, err := o.read()
	if err != nil {
		return nil, err
	}
	pair, err := text.parse(o)
	if err != nil {
		return nil, err
	}
	f.text, f.changed, f.rotate = text, make(chan struct{}), f.run
	f.show(pair, text.ca)
	f.warn(pair, text.ca)
	return &f.Source, nil
}

type files struct {
	Source
	opts FilesOptions

	// The constructor owns these fields, and then Run.

	// text is the current content.
	text filesText
	// failure is the last logged error, empty while the files are valid.
	failure string
}

// filesText is the content of the files.
type filesText struct{ cert, key, ca []byte }

// run is Source.Run.
func (f *files) run(ctx context.Context) error {
	return followFiles(ctx, f.opts.Log, f.opts.paths(), f.reload)
}

func (o FilesOptions) paths() []string {
	if o.CA == "" {
		return []string{o.Cert, o.Key}
	}
	return []string{o.Cert, o.Key, o.CA}
}

func (f *files) reload() {
	text, err := f.opts.read()
	var pair *tls.Certificate
	if err == nil {
		pair, err = text.parse(f.opts)
	}
	if err != nil {
		// The files change one after the other, which may report the same error several times.
		if f.failure != err.Error() {
			f.failure = err.Error()
			f.opts.Log.Error(f.opts.For+" certificate cannot be reloaded, the last one stays in use", "error", f.failure)
		}
		return
	}
	if f.failure == "" && text.equal(f.text) {
		return
	}
	f.failure, f.text = "", text
	f.show(pair, text.ca)
	f.opts.Log.Info(f.opts.For+" certificate was reloaded", "file", f.opts.Cert, "certificateExpires", pair.Leaf.NotAfter)
	f.warn(pair, text.ca)
}

// warn logs certificates that clients will reject.
func (f *files) warn(pair *tls.Certificate, ca []byte) {
	leaf := pair.Leaf
	if !validAt(leaf, time.Now()) {
		f.opts.Log.Warn(f.opts.For+" certificate is not valid now, clients will reject it: replace the file", "file", f.opts.Cert,
			"from", leaf.NotBefore, "until", leaf.NotAfter)
		return
	}
	roots := x509.NewCertPool()
	if f.opts.CA == "" || !roots.AppendCertsFromPEM(ca) {
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

// what is For within a sentence.
func (o FilesOptions) what() string {
	if o.For == "Webhook" {
		return "webhook"
	}
	return o.For
}

// otherwise is the alternative to files.
func (o FilesOptions) otherwise() string {
	if o.For == "Webhook" {
		return ", or set no certificate files to have the operator create certificates"
	}
	return ""
}

func (o FilesOptions) read() (text filesText, err error) {
	for _, file := range []struct {
		what, path string
		into       *[]byte
	}{{"certificate", o.Cert, &text.cert}, {"private key", o.Key, &text.key}, {"CA", o.CA, &text.ca}} {
		if file.path == "" && file.what == "CA" {
			continue
		}
		if *file.into, err = os.ReadFile(file.path); errors.Is(err, fs.ErrNotExist) {
			return filesText{}, fmt.Errorf("cannot read the %s %s: there is no file %q: mount the Secret there%s", o.what(), file.what, file.path,
				o.otherwise())
		} else if err != nil {
			return filesText{}, fmt.Errorf("cannot read the %s %s: %w", o.what(), file.what, err)
		}
	}
	return text, nil
}

func (t filesText) equal(other filesText) bool {
	return bytes.Equal(t.cert, other.cert) && bytes.Equal(t.key, other.key) && bytes.Equal(t.ca, other.ca)
}

func (t filesText) parse(o FilesOptions) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(t.cert, t.key)
	if err != nil {
		return nil, fmt.Errorf("cannot use the %s certificate %q with the private key %q: both must be PEM and belong together: %w", o.what(),
			o.Cert, o.Key, err)
	}
	if o.CA != "" && !x509.NewCertPool().AppendCertsFromPEM(t.ca) {
		return nil, fmt.Errorf("the webhook CA file %q contains no PEM certificate: it must have the CA that signed %q", o.CA, o.Cert)
	}
	return &pair, nil
}
