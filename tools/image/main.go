// Program image builds the static image of the operator without a container engine:
//
//	image build --to DIR --version V --time SECONDS --licenses FILE --binary OS/ARCH=FILE…   writes an OCI layout
//	image push DIR REF                                                      pushes it, with its SBOMs
//	image digest DIR|REF                                                    prints the digest of a layout's image, or of one in a registry
//	image sbom --version V FILE                                             prints the SBOM of a program
//
// Callers may rely on this:
//   - The same input gives the same digests, on any machine with this version of Go.
//   - The image has one layer: the program, the licences of its libraries, its directories, a user, CA certificates. Nothing runs as root.
//   - Each platform's image has an SBOM (CycloneDX JSON) that refers to it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1)
	}
}

var commands = map[string]func(args []string, stdout io.Writer) error{
	"build": buildCommand, "push": pushCommand, "digest": digestCommand, "sbom": sbomCommand,
}

func run(args []string, stdout io.Writer) error {
	if len(args) > 0 {
		if command, ok := commands[args[0]]; ok {
			return command(args[1:], stdout)
		}
	}
	return errors.New("missing command: image build, image push, image digest or image sbom")
}

// list is a flag that can be given several times.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(value string) error {
	*l = append(*l, value)
	return nil
}

func buildCommand(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	var o options
	var binaries list
	flags.StringVar(&o.version, "version", "", "version of the program")
	flags.StringVar(&o.revision, "revision", "", "commit that it is built from")
	seconds := flags.Int64("time", 0, "time of everything in the image, in seconds since 1970: that of the commit")
	flags.StringVar(&o.licenses, "licenses", "", "file with the licences of the libraries")
	to := flags.String("to", "", "directory of the layout; an older layout there is replaced")
	flags.Var(&binaries, "binary", "static program for a platform, as linux/amd64=path")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.time = time.Unix(*seconds, 0).UTC()
	if o.version == "" || *to == "" || o.licenses == "" || len(binaries) == 0 {
		return errors.New("build needs --version, --to, --licenses and at least one --binary")
	}
	for _, b := range binaries {
		platform, file, ok := strings.Cut(b, "=")
		if !ok {
			return fmt.Errorf("--binary %s: write it as linux/amd64=path", b)
		}
		o.binaries = append(o.binaries, binary{platform: platform, file: file})
	}
	digest, err := build(o, *to)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, digest)
	return err
}

func pushCommand(args []string, stdout io.Writer) error {
	if len(args) != 2 {
		return errors.New("push needs the directory of a layout and a reference, such as ghcr.io/me/shell-operator:v1.2.3")
	}
	return push(args[0], args[1], stdout)
}

// push pushes the index of a layout under the reference, and the SBOMs by their digests. The credentials come from
// docker login.
func push(dir, reference string, stdout io.Writer) error {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return err
	}
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return fmt.Errorf("cannot read the OCI layout in %s: %w: create it with image build", dir, err)
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		return err
	}
	login := remote.WithAuthFromKeychain(authn.DefaultKeychain)
	for _, d := range manifest.Manifests {
		if d.MediaType.IsIndex() {
			index, err := top.ImageIndex(d.Digest)
			if err == nil {
				err = remote.WriteIndex(ref, index, login)
			}
			if err != nil {
				return fmt.Errorf("cannot push %s: %w", ref, err)
			}
			fmt.Fprintf(stdout, "%s@%s\n", ref, d.Digest)
			continue
		}
		sbom, err := top.Image(d.Digest)
		if err == nil {
			err = remote.Write(ref.Context().Digest(d.Digest.String()), sbom, login)
		}
		if err != nil {
			return fmt.Errorf("cannot push the SBOM %s: %w", d.Digest, err)
		}
	}
	return nil
}

func digestCommand(args []string, stdout io.Writer) error {
	if len(args) != 1 {
		return errors.New("digest needs the directory of a layout, or a reference, such as ghcr.io/me/shell-operator:v1.2.3")
	}
	digest, err := digestOf(args[0])
	if err == nil {
		_, err = fmt.Fprintln(stdout, digest)
	}
	return err
}

func digestOf(image string) (v1.Hash, error) {
	if _, err := os.Stat(image); err == nil {
		top, err := layout.ImageIndexFromPath(image)
		if err != nil {
			return v1.Hash{}, fmt.Errorf("cannot read the OCI layout in %s: %w: create it with image build", image, err)
		}
		manifest, err := top.IndexManifest()
		if err != nil {
			return v1.Hash{}, err
		}
		for _, d := range manifest.Manifests {
			if d.MediaType.IsIndex() {
				return d.Digest, nil
			}
		}
		return v1.Hash{}, fmt.Errorf("the OCI layout in %s has no image of several platforms: create it with image build", image)
	}
	ref, err := name.ParseReference(image)
	if err != nil {
		return v1.Hash{}, err
	}
	// Not HEAD: a registry may answer it without a digest.
	found, err := remote.Get(ref, remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return v1.Hash{}, fmt.Errorf("cannot read %s: %w", ref, err)
	}
	return found.Digest, nil
}

func sbomCommand(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("sbom", flag.ContinueOnError)
	version := flags.String("version", "", "version of the program")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 || *version == "" {
		return errors.New("sbom needs --version and one program")
	}
	text, err := sbomOf(flags.Arg(0), *version)
	if err != nil {
		return err
	}
	_, err = stdout.Write(text)
	return err
}
