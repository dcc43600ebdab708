// Site builds the documentation as a site: the pages of docs, README and the examples, by Hugo.
//
//   - Pages stay as they are read on GitHub: titles, order, groups and links come from them and from the lists of docs/README.md.
//   - Each version is a folder of its own. A folder can be moved and is read from a disk too: links are relative, the search needs no
//     server.
//   - Each page is there as Markdown, too, and llms.txt lists them.
//   - A site with a dead link, a page without a name, or a request to another host is an error.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("site", flag.ContinueOnError)
	flags.SetOutput(stderr)
	b := build{log: stderr}
	flags.StringVar(&b.root, "root", ".", "the repository")
	flags.StringVar(&b.to, "to", "bin/site", "where the site is written")
	flags.StringVar(&b.hugo, "hugo", "bin/tools/hugo", "the program Hugo")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if err := b.run(); err != nil {
		fmt.Fprintln(stderr, "site:", err)
		return 1
	}
	return 0
}

// Theme is the module of the theme. Its version is in go.mod beside the layout.
const theme = "github.com/imfing/hextra"

// Development is the version of the work tree.
const development = "main"

type build struct {
	root, to, hugo string
	log            io.Writer
}

func (b build) run() error {
	for _, path := range []*string{&b.root, &b.to, &b.hugo} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	tags, err := output(b.root, "git", "tag", "--list", "v*")
	if err != nil {
		return err
	}
	releases := slices.DeleteFunc(releases(strings.Fields(tags)), func(tag string) bool {
		_, err := output(b.root, "git", "cat-file", "-e", tag+":tools/site") // the first versions of the pages have no groups
		return err != nil
	})
	versions := append(slices.Clone(releases), development)

	work, err := os.MkdirTemp("", "site-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // a folder of temporary files
	if err := os.RemoveAll(b.to); err != nil {
		return err
	}
	for _, version := range versions {
		fmt.Fprintf(b.log, "building the site of %s\n", version)
		if err := b.version(filepath.Join(work, version), version, versions); err != nil {
			return fmt.Errorf("version %s: %w", version, err)
		}
	}
	if err := finish(b.to, versions); err != nil {
		return err
	}
	home := versions[0] + "/index.html"
	first := `<!doctype html><meta charset="utf-8"><title>shell-operator</title>` +
		`<meta http-equiv="refresh" content="0; url=` + home + `"><a href="` + home + `">shell-operator</a>` + "\n"
	if err := os.WriteFile(filepath.Join(b.to, "index.html"), []byte(first), 0o644); err != nil {
		return err
	}
	list, err := os.ReadFile(filepath.Join(b.to, versions[0], "llms.txt"))
	if err != nil {
		return err
	}
	list = bytes.ReplaceAll(list, []byte("]("), []byte("]("+versions[0]+"/"))
	if err := os.WriteFile(filepath.Join(b.to, "llms.txt"), list, 0o644); err != nil {
		return err
	}
	problems, err := check(b.to)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return errors.New("the site has problems:\n" + strings.Join(problems, "\n"))
	}
	return nil
}

// version builds the site of one version: of the work tree, or of a tag.
func (b build) version(work, version string, versions []string) error {
	root := b.root
	if version != development {
		root = filepath.Join(work, "tree")
		if err := b.extract(version, root); err != nil {
			return err
		}
	}
	source := filepath.Join(work, "site")
	// The layout is the one of the work tree for all versions.
	if err := os.CopyFS(source, os.DirFS(filepath.Join(b.root, "tools", "site", "hugo"))); err != nil {
		return err
	}
	pages, err := read(root)
	if err != nil {
		return err
	}
	if err := write(pages, root, source, version, versions); err != nil {
		return err
	}
	found, err := output(source, "go", "mod", "download", "-json", theme)
	if err != nil {
		return err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal([]byte(found), &module); err != nil {
		return err
	}
	cmd := exec.Command(b.hugo, "build", "--noBuildLock", "--panicOnWarning", "--config", "hugo.yaml,version.yaml",
		"--destination", filepath.Join(b.to, version))
	cmd.Dir = source
	// Hugo has a module cache and a proxy of its own: the theme is the one that go.sum has.
	cmd.Env = append(os.Environ(), "HUGO_MODULE_REPLACEMENTS="+theme+" -> "+module.Dir, "HUGO_CACHEDIR="+filepath.Join(work, "cache"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("hugo: %w\n%s", err, out)
	}
	return nil
}

// extract writes the files of a tag to a folder.
func (b build) extract(tag, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	files, err := output(b.root, "git", "archive", tag)
	if err != nil {
		return err
	}
	unpack := exec.Command("tar", "-x", "-C", to)
	unpack.Stdin = strings.NewReader(files)
	return unpack.Run()
}

func output(dir string, command ...string) (string, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, stderr.String())
	}
	return string(out), nil
}

// releases returns the newest tag of each minor version, the newest first, without those before a release.
func releases(tags []string) (found []string) {
	type release struct {
		tag   string
		parts [3]int
	}
	newest := map[[2]int]release{}
	for _, tag := range tags {
		r := release{tag: tag}
		if n, err := fmt.Sscanf(tag, "v%d.%d.%d", &r.parts[0], &r.parts[1], &r.parts[2]); n != 3 || err != nil ||
			tag != fmt.Sprintf("v%d.%d.%d", r.parts[0], r.parts[1], r.parts[2]) {
			continue
		}
		minor := [2]int(r.parts[:2])
		if old, ok := newest[minor]; !ok || old.parts[2] < r.parts[2] {
			newest[minor] = r
		}
	}
	var all []release
	for _, r := range newest {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b release) int { return slices.Compare(b.parts[:], a.parts[:]) })
	for _, r := range all {
		found = append(found, r.tag)
	}
	return found
}
