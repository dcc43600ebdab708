package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPages: each page is in a group, and each of its links is to a page or a file.
func TestPages(t *testing.T) {
	pages, err := read("../..")
	if err != nil {
		t.Fatal(err)
	}
	source := t.TempDir()
	if err := write(pages, "../..", source, development, []string{development}); err != nil {
		t.Fatal(err)
	}
	groups := map[string]int{}
	for _, p := range pages {
		groups[p.group]++
	}
	for _, group := range []string{"Start", "Write", "Test", "Install", "Operate", "Upgrade and migrate", "Look up", "Understand",
		"Examples"} {
		if groups[group] == 0 {
			t.Errorf("no page is in the group %s", group)
		}
	}
	page, err := os.ReadFile(filepath.Join(source, "content", "test", "how-to-test-hooks.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"title": "Test hooks: test, lint, run"`, `"url": "/how-to/test-hooks.html"`,
		"](/reference/test-files.html"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page of Hugo has no %s", want)
		}
	}
	for _, hidden := range []string{"<!--", "](../", "\n# Test hooks"} {
		if strings.Contains(string(page), hidden) {
			t.Errorf("the page of Hugo has %q", hidden)
		}
	}
}

// TestMarkdown: each page is Markdown, too, in llms.txt, and its links lead to files.
func TestMarkdown(t *testing.T) {
	pages, err := read("../..")
	if err != nil {
		t.Fatal(err)
	}
	source := t.TempDir()
	if err := write(pages, "../..", source, development, []string{development}); err != nil {
		t.Fatal(err)
	}
	static := filepath.Join(source, "static")
	list, err := os.ReadFile(filepath.Join(static, "llms.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# shell-operator\n\n> ", "\n## Look up\n", "\n- [Test hooks: test, lint, run](how-to/test-hooks.md): Write tests of hooks"} {
		if !strings.Contains(string(list), want) {
			t.Errorf("llms.txt has no %q:\n%s", want, list)
		}
	}
	relative := regexp.MustCompile(`\]\(([^()\s#:]+)[^()\s:]*\)`)
	for _, p := range append(pages, page{address: "llms.txt"}) {
		name := (site{markdown: true}).at(page{}, p.address)
		text, err := os.ReadFile(filepath.Join(static, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if p.title != "" && (!strings.HasPrefix(string(text), "# "+p.title+"\n") || !strings.Contains(string(list), "]("+name+"): ")) {
			t.Errorf("%s does not begin with its title, or is not in llms.txt", name)
		}
		for _, m := range relative.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(static, filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s: a dead link to %s", name, m[1])
			}
		}
	}
}

func TestPagesWithoutPlace(t *testing.T) {
	root := files(t, map[string]string{
		"README.md":         "# Program\n\n[docs](docs/README.md)\n",
		"docs/README.md":    "# Documentation\n\n**Start**\n\n- [A](a.md)\n- [Gone](gone.md)\n",
		"docs/a.md":         "# A\n",
		"docs/how-to/b.md":  "# B\n",
		"docs/how-to/b.txt": "",
	})
	_, err := read(root)
	for _, want := range []string{"gone.md: no such file", "docs/how-to/b.md is not in a group of docs/README.md"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestLinks(t *testing.T) {
	s := site{root: "../..", version: "v1.2.3", static: map[string]bool{}, byFile: map[string]page{
		"docs/how-to/upgrade.md": {address: "how-to/upgrade.html"}, "examples/addons/README.md": {address: "examples/addons.html"}}}
	for _, c := range []struct{ text, want string }{
		{"[a](upgrade.md#x)", "[a](/how-to/upgrade.html#x)"},
		{"[`a`](../../examples/addons/README.md)", "[`a`](/examples/addons.html)"},
		{"[a](../../deploy)", "[a](" + repository + "/tree/v1.2.3/deploy)"},
		{"[a](../../Makefile#L1)", "[a](" + repository + "/blob/v1.2.3/Makefile#L1)"},
		{"![a](../reference/status-page.png)", "![a](/reference/status-page.png)"},
		{`<img src="../reference/status-page.png">`, `<img src="/reference/status-page.png">`},
		{"`[a](upgrade.md)` [b](#b)", "`[a](upgrade.md)` [b](#b)"},
		{"```\n[a](upgrade.md)\n```\n", "```\n[a](upgrade.md)\n```\n"},
		{"[a](https://example.com/a.md)", "[a](https://example.com/a.md)"},
	} {
		got, err := s.links(page{file: "docs/how-to/a.md", text: c.text})
		if err != nil || got != c.want {
			t.Errorf("%s: %s, %v, want %s", c.text, got, err, c.want)
		}
	}
	if _, err := s.links(page{file: "docs/how-to/a.md", text: "[a](nowhere.md)"}); err == nil {
		t.Error("a link to nowhere is no error")
	}
}

func TestCheck(t *testing.T) {
	const head = `<head><title>A – shell-operator</title></head>`
	for _, c := range []struct{ name, body, want string }{
		{"good", `<h1>A</h1><a href="./index.html#here">x</a><a href="https://example.com">y</a><b id="here">`, ""},
		{"a dead link", `<h1>A</h1><a href="./b.html">`, "main/index.html: a dead link to ./b.html"},
		{"a link from the root of a host", `<h1>A</h1><a href="/main/index.html">`, "a dead link to /main/index.html"},
		{"a dead anchor", `<h1>A</h1><a href="#gone">`, "a link to #gone: that page has no such heading"},
		{"an image of another host", `<h1>A</h1><img src="https://example.com/a.png">`, "a request to another host: src of img"},
		{"a script without a scheme", `<h1>A</h1><script src="//example.com/a.js"></script>`, "a request to another host: src of script"},
		{"a font in a style", `<h1>A</h1><style>@import "https://example.com/a.css";</style>`, "a request to another host: @import"},
		{"a style of another host", `<h1>A</h1><link rel="preconnect" href="https://example.com">`, "href of link"},
		{"another name", `<h1>B</h1>`, "the page is not named as its first heading"},
		{"an image that is not there", `<h1>A</h1><img src="a.png">`, "a dead link to a.png"},
	} {
		root := files(t, map[string]string{
			"index.html":           `<a href="main/index.html">`,
			"main/index.html":      head + c.body,
			"main/search-index.js": `window.searchIndex=[["index.html","A","",""]];`,
		})
		problems, err := check(root)
		if err != nil || (c.want == "") != (len(problems) == 0) || !strings.Contains(strings.Join(problems, "\n"), c.want) {
			t.Errorf("%s: %q, %v", c.name, problems, err)
		}
	}
	root := files(t, map[string]string{
		"index.html":           "<title></title>",
		"main/lost.html":       head + "<h1>A</h1>",
		"main/search-index.js": "window.searchIndex=[];",
		"main/a.css":           "@font-face { src: url(https://example.com/a.woff) }",
		"main/a.js":            `fetch("//example.com/"); const name = "http://www.w3.org/2000/svg"`,
	})
	problems, err := check(root)
	want := []string{
		"main/a.css: a request to another host: url(https://example.com/a.woff",
		`main/a.js: a request to another host: fetch("//example.com/`,
		"main/lost.html: no page links it",
		"main/lost.html: the search does not find it",
	}
	if err != nil || !slices.Equal(problems, want) {
		t.Errorf("problems %q, %v, want %q", problems, err, want)
	}
}

func TestReleases(t *testing.T) {
	got := releases([]string{"v1.0.0", "v1.0.10", "v1.0.9", "v1.10.0", "v1.9.0", "v2.0.0-rc.1", "vim", "v1.0"})
	if want := []string{"v1.10.0", "v1.9.0", "v1.0.10"}; !slices.Equal(got, want) {
		t.Errorf("versions %q, want %q", got, want)
	}
}

// TestSite builds the site of a repository with releases. SITE is the path of Hugo: make test-site.
func TestSite(t *testing.T) {
	hugo := os.Getenv("SITE")
	if hugo == "" {
		t.Skip("make test-site builds Hugo and runs this test")
	}
	root := files(t, map[string]string{
		"README.md":        "# shell-operator\n\nSee [docs](docs/README.md).\n",
		"docs/README.md":   "# Documentation\n\n**Start**\n\n- [One](one.md)\n",
		"docs/one.md":      "# One\n\n## A part of it\n\nSee [above](#a-part-of-it) and [the code](../tools).\n",
		"tools/go.mod":     "module tools\n",
		"docs/unused.json": "{}",
	})
	if err := os.CopyFS(filepath.Join(root, "tools", "site", "hugo"), os.DirFS("hugo")); err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-qm", "one")
	git("tag", "v1.0.0")
	git("tag", "v1.0.1")
	put(t, filepath.Join(root, "docs/README.md"), "# Documentation\n\n**Start**\n\n- [One](one.md), [Two](two.md)\n")
	put(t, filepath.Join(root, "docs/two.md"), "# Two\n")
	var log bytes.Buffer
	to := filepath.Join(t.TempDir(), "site")
	if code := run([]string{"--root", root, "--to", to, "--hugo", hugo}, &log); code != 0 {
		t.Fatalf("exit status %d\n%s", code, log.String())
	}
	for page, want := range map[string][]string{
		"index.html": {"url=v1.0.1/index.html"},
		"llms.txt":   {"- [One](v1.0.1/one.md): "},
		// The other version of the same page; of a page that it does not have, its first page.
		"main/one.html":          {`href="./../v1.0.1/one.html"`, `href="./../main/one.html"`, "/tree/main/tools", `href="./two.html"`},
		"main/two.html":          {`href="./../v1.0.1/index.html"`},
		"main/one.md":            {"# One", "](#a-part-of-it)", "/tree/main/tools"},
		"v1.0.1/one.html":        {`href="./../main/one.html"`, "/tree/v1.0.1/tools"},
		"v1.0.1/search-index.js": {`["one.html#a-part-of-it","One","A part of it","See above and the code."]`},
	} {
		text, err := os.ReadFile(filepath.Join(to, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range want {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s has no %s", page, want)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(to, "v1.0.0")); err == nil {
		t.Error("there is a site of v1.0.0, which v1.0.1 replaces")
	}
	put(t, filepath.Join(root, "docs/two.md"), "# Two\n\n[one](one.md#gone)\n")
	log.Reset()
	if code := run([]string{"--root", root, "--to", to, "--hugo", hugo}, &log); code != 1 ||
		!strings.Contains(log.String(), "no such heading") {
		t.Errorf("a dead link: exit status %d\n%s", code, log.String())
	}
}

func files(t *testing.T, texts map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range texts {
		put(t, filepath.Join(root, name), text)
	}
	return root
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
