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
	// For is what the certificate is for, in messages; empty means "Webhook".
	For string
	Log *slog.Logger
}

// Files returns a Source that reads files, and reads them again when they change. New files that cannot be used are
// logged, and the last good ones stay in use.
func Files(o FilesOptions) (Source, error) {
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
	f.text, f.changed = text, make(chan struct{})
	f.show(pair, text.ca)
	f.warn(pair, text.ca)
	return f, nil
}

type files struct {
	shown
	opts FilesOptions

	// What follows belongs to the constructor, and then to Run.

	// text is what is shown.
	text filesText
	// failure is the last error that was logged, if the files are not good.
	failure string
}

var _ Source = (*files)(nil)

// filesText is what is in the files.
type filesText struct{ cert, key, ca []byte }

// Run implements Source.
func (f *files) Run(ctx context.Context) error {
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
		// One file may come before the other, so the same trouble is no news.
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

// warn tells of files that are used but will not help.
func (f *files) warn(pair *tls.Certificate, ca []byte) {
	leaf := pair.Leaf
	if !validAt(leaf, time.Now()) {
		f.opts.Log.Warn(f.opts.For+" certificate is not valid now, callers will refuse it: replace the file", "file", f.opts.Cert,
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
		f.opts.Log.Warn(f.opts.For+" certificate is not signed by the CA, callers will refuse it: replace one of the files",
			"file", f.opts.Cert, "ca", f.opts.CA, "error", err.Error())
	}
}

// what is For inside of a sentence.
func (o FilesOptions) what() string {
	if o.For == "Webhook" {
		return "webhook"
	}
	return o.For
}

// otherwise is what else can be done without files.
func (o FilesOptions) otherwise() string {
	if o.For == "Webhook" {
		return ", or give no certificate files to have certificates made"
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
			return filesText{}, fmt.Errorf("cannot read the %s %s: there is no file %q: mount the Secret there%s", o.what(), file.what, file.path, o.otherwise())
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
		return nil, fmt.Errorf("cannot use the %s certificate %q with the private key %q: put there a pair in PEM: %w", o.what(), o.Cert, o.Key, err)
	}
	if o.CA != "" && !x509.NewCertPool().AppendCertsFromPEM(t.ca) {
		return nil, fmt.Errorf("the webhook CA file %q holds no certificate in PEM: put there the CA that signed %q", o.CA, o.Cert)
	}
	return &pair, nil
}
