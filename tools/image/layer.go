package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nonRoot is the user and group of the image.
const nonRoot = 65532

// entry is one file, directory or link of the layer.
type entry struct {
	name string
	mode int64
	// uid and gid are 0 but for directories that the operator writes to.
	uid, gid int
	link     string
	content  []byte
}

// entries are the content of the layer, in its order. Directories that are written to belong to nonRoot and, for users
// with any other id, to group 0, whose members they are on platforms that give out ids at random.
func entries(program, licenses []byte) []entry {
	passwd := "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n"
	group := "root:x:0:\nnonroot:x:65532:\n"
	return []entry{
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, content: []byte(group)},
		{name: "etc/passwd", mode: 0o644, content: []byte(passwd)},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: roots()},
		{name: "hooks/", mode: 0o755},
		{name: "shell-operator", mode: 0o755, content: program},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/", mode: 0o755},
		{name: "usr/local/", mode: 0o755},
		{name: "usr/local/bin/", mode: 0o755},
		{name: "usr/local/bin/shell-operator", mode: 0o777, link: "/shell-operator"},
		{name: "usr/share/", mode: 0o755},
		{name: "usr/share/licenses/", mode: 0o755},
		{name: "usr/share/licenses/shell-operator.txt", mode: 0o644, content: licenses},
		{name: "var/", mode: 0o755},
		{name: "var/run/", mode: 0o755},
		{name: "var/run/shell-operator/", mode: 0o770, uid: nonRoot},
	}
}

// roots are the certificate authorities that Mozilla trusts, as PEM. Those that it trusts for a part of their
// certificates only are left out: a file cannot say so.
func roots() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return b.Bytes()
}

func layerOf(file string, o options) (v1.Layer, error) {
	program, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	licenses, err := os.ReadFile(o.licenses)
	if err != nil {
		return nil, err
	}
	content, err := archive(entries(program, licenses), o.time)
	if err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	return tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer))
}

func archive(entries []entry, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: e.name, Linkname: e.link, Mode: e.mode, Uid: e.uid, Gid: e.gid,
			Size: int64(len(e.content)), ModTime: at, Format: tar.FormatUSTAR,
		}
		switch {
		case e.link != "":
			h.Typeflag = tar.TypeSymlink
		case e.name[len(e.name)-1] == '/':
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}
