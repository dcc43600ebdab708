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
	f := &files{opts: o, what: o.For}
	if o.For == "" {
		f.opts.For, f.what, f.otherwise = "Webhook", "webhook", ", or set no certificate files to have the operator create certificates"
	}
	f.changed, f.rotate = make(chan struct{}), f.run
	if _, err := f.load(); err != nil {
		return nil, err
	}
	f.warn()
	return &f.Source, nil
}

type files struct {
	Source
	opts FilesOptions
	// what is For inside a sentence, otherwise is the alternative to files.
	what, otherwise string

	// The constructor owns these fields, and then Run.

	// leaf and ca are what the files had.
	leaf *x509.Certificate
	ca   []byte
	// failure is the last logged error, empty while the files are valid.
	failure string
}

// run is Source.Run.
func (f *files) run(ctx context.Context) error {
	paths := []string{f.opts.Cert, f.opts.Key}
	if f.opts.CA != "" {
		paths = append(paths, f.opts.CA)
	}
	return followFiles(ctx, f.opts.Log, paths, f.reload)
}

func (f *files) reload() {
	changed, err := f.load()
	switch {
	case err != nil && f.failure != err.Error(): // the files change one after the other, which may report the same error several times
		f.failure = err.Error()
		f.opts.Log.Error(f.opts.For+" certificate cannot be reloaded, the last one stays in use", "error", f.failure)
	case changed:
		f.opts.Log.Info(f.opts.For+" certificate was reloaded", "file", f.opts.Cert, "certificateExpires", f.leaf.NotAfter)
		f.warn()
	}
}

// load shows what is in the files, and reports whether that is new.
func (f *files) load() (changed bool, err error) {
	pair, err := tls.LoadX509KeyPair(f.opts.Cert, f.opts.Key)
	var ca []byte
	if err == nil && f.opts.CA != "" {
		ca, err = os.ReadFile(f.opts.CA)
	}
	switch {
	case errors.As(err, new(*fs.PathError)):
		return false, fmt.Errorf("cannot read the %s certificate: %w: mount the Secret there%s", f.what, err, f.otherwise)
	case err != nil:
		return false, fmt.Errorf("cannot use the %s certificate %q with the private key %q: both must be PEM and belong together: %w", f.what,
			f.opts.Cert, f.opts.Key, err)
	case f.opts.CA != "" && !x509.NewCertPool().AppendCertsFromPEM(ca):
		return false, fmt.Errorf("the webhook CA file %q contains no PEM certificate: it must have the CA that signed %q", f.opts.CA, f.opts.Cert)
	case f.failure == "" && f.leaf != nil && f.leaf.Equal(pair.Leaf) && bytes.Equal(f.ca, ca):
		return false, nil
	}
	f.failure, f.leaf, f.ca = "", pair.Leaf, ca
	f.show(&pair, ca, [2]string{})
	return true, nil
}

// warn logs certificates that clients will reject.
func (f *files) warn() {
	if !validAt(f.leaf, time.Now()) {
		f.opts.Log.Warn(f.opts.For+" certificate is not valid now, clients will reject it: replace the file", "file", f.opts.Cert,
			"from", f.leaf.NotBefore, "until", f.leaf.NotAfter)
		return
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(f.ca) {
		return
	}
	for _, der := range f.now().certificate.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			intermediates.AddCert(c)
		}
	}
	if _, err := f.leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates}); err != nil {
		f.opts.Log.Warn(f.opts.For+" certificate is not signed by the CA, clients will reject it: replace one of the files",
			"file", f.opts.Cert, "ca", f.opts.CA, "error", err.Error())
	}
}
