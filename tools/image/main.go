// Program image makes the static image of the operator without a container engine, and looks after what is in a registry:
//
//	image build --to DIR --version V --time SECONDS --binary OS/ARCH=FILE…   writes an OCI layout
//	image push DIR REF                                                      pushes it, with its SBOMs
//	image check [--sbom] --platform OS/ARCH… REF…                           fails when something is missing
//	image sbom --version V FILE                                             prints the SBOM of a program
//
// Callers may rely on this:
//   - The same input gives the same digests, on any machine with this version of Go.
//   - The image has one layer: the program, its directories, a user, CA certificates. Nothing runs as root.
//   - Each platform's image has an SBOM (CycloneDX JSON) that refers to it.
//   - check reads what a client would read, from the registry.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1)
	}
}

var commands = map[string]func(args []string, stdout io.Writer) error{
	"build": buildCommand, "push": pushCommand, "check": checkCommand, "sbom": sbomCommand,
}

func run(args []string, stdout io.Writer) error {
	if len(args) > 0 {
		if command, ok := commands[args[0]]; ok {
			return command(args[1:], stdout)
		}
	}
	return errors.New("which command? image build, image push, image check or image sbom")
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
	to := flags.String("to", "", "directory of the layout; an older layout there is replaced")
	flags.Var(&binaries, "binary", "static program for a platform, as linux/amd64=path")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.time = time.Unix(*seconds, 0).UTC()
	if o.version == "" || *to == "" || len(binaries) == 0 {
		return errors.New("build needs --version, --to and at least one --binary")
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

func checkCommand(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	sbom := flags.Bool("sbom", false, "each platform must have an SBOM: an artifact of image build, or an attestation of BuildKit")
	var platforms list
	flags.Var(&platforms, "platform", "platform that must be there, as linux/amd64")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 || len(platforms) == 0 {
		return errors.New("check needs at least one --platform and one reference")
	}
	var missing []error
	for _, ref := range flags.Args() {
		missing = append(missing, check(ref, platforms, *sbom, stdout))
	}
	return errors.Join(missing...)
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
