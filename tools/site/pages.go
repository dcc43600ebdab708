package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const repository = "https://github.com/shell-operator/shell-operator"

// page is a page of the repository.
type page struct {
	// file is its path in the repository, address the one in the site: "how-to/upgrade.html".
	file, address string
	title, group  string
	text          string
}

// Where the lists of pages are.
const list = "docs/README.md"

var (
	groupLine = regexp.MustCompile(`^\*\*([^*]+)\*\*`)
	fences    = regexp.MustCompile("(?ms)^```.*?^```")
	linkText  = regexp.MustCompile(`\[([^\]]*)\]\([^()\s]+\)`)
	linkTo    = regexp.MustCompile(`(\]\()([^()\s]+)(\))`)
	attribute = regexp.MustCompile(`((?:src|srcset|href)=")([^"]+)(")`)
	inline    = regexp.MustCompile("`[^`\n]*`")
)

// address returns where a page is in the site.
func address(file string) string {
	switch {
	case file == "README.md":
		return "index.html"
	case file == list:
		return "documentation.html"
	case path.Base(file) == "README.md":
		file = path.Dir(file) + ".md"
	case !strings.Contains(file, "/"):
		file = strings.ToLower(file)
	}
	return strings.TrimSuffix(strings.TrimPrefix(file, "docs/"), ".md") + ".html"
}

// read returns the pages of a repository in the order of its list. A page of docs or of an example that is not in the list is an error.
func read(root string) (pages []page, err error) {
	text, err := os.ReadFile(filepath.Join(root, list))
	if err != nil {
		return nil, err
	}
	seen, problems := map[string]bool{}, []error{}
	add := func(file, group string) {
		if seen[file] {
			return
		}
		seen[file] = true
		p, err := open(root, file)
		p.group = group
		pages, problems = append(pages, p), append(problems, err)
	}
	add("README.md", "")
	add(list, "")
	group := ""
	for line := range strings.Lines(string(text)) {
		if m := groupLine.FindStringSubmatch(line); m != nil {
			group = m[1]
		}
		for _, m := range linkTo.FindAllStringSubmatch(line, -1) {
			target, _, _ := strings.Cut(m[2], "#")
			if group != "" && strings.HasSuffix(target, ".md") && !strings.Contains(target, "://") {
				add(path.Join(path.Dir(list), target), group)
			}
		}
	}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md", "examples/*/README.md", "*.md"} {
		files, err := fs.Glob(os.DirFS(root), pattern)
		problems = append(problems, err)
		for _, file := range files {
			if !seen[file] {
				problems = append(problems, fmt.Errorf("%s is not in a group of %s", file, list))
			}
		}
	}
	return pages, errors.Join(problems...)
}

func open(root, file string) (page, error) {
	p := page{file: file, address: address(file)}
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return p, err
	}
	p.text = visible(string(text))
	title, rest, ok := strings.Cut(strings.TrimLeft(p.text, "\n"), "\n")
	if p.title, ok = strings.CutPrefix(title, "# "); !ok {
		return p, fmt.Errorf("%s does not begin with a title", file)
	}
	p.title, p.text = strings.ReplaceAll(p.title, "`", ""), rest
	return p, nil
}

// visible returns the text without comments, which are for tests.
func visible(text string) string {
	var b strings.Builder
	fenced, hidden := false, false
	for line := range strings.Lines(text) {
		if !hidden && strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if !fenced && !hidden && strings.HasPrefix(strings.TrimSpace(line), "<!--") {
			hidden = true
		}
		if !hidden {
			b.WriteString(line)
		}
		hidden = hidden && !strings.Contains(line, "-->")
	}
	return b.String()
}

// site writes pages as Hugo reads them.
type site struct {
	root, source, version string
	byFile                map[string]page
	// static are files that pages show or link.
	static map[string]bool
	// markdown: links are relative, as pages in Markdown have them; otherwise they begin at the root, as for Hugo.
	markdown bool
}

// write writes what Hugo needs beside its layout: the pages, the files that they show, and the versions.
func write(pages []page, root, source, version string, versions []string) error {
	s := site{root: root, source: source, version: version, byFile: map[string]page{}, static: map[string]bool{}}
	var groups []string
	for _, p := range pages {
		s.byFile[p.file] = p
		if p.group != "" && !slices.Contains(groups, p.group) {
			groups = append(groups, p.group)
		}
	}
	// Previous and next follow the list across groups.
	for i, p := range pages {
		front := map[string]any{"title": p.title, "url": "/" + p.address, "type": "docs", "weight": i + 1}
		name := contentName(p)
		if i == 0 {
			name = "_index.md"
			front["cascade"] = map[string]any{"type": "docs"}
			front["url"] = "/"
		}
		front["prev"], front["next"] = false, false
		if i > 0 {
			front["prev"] = ref(pages[i-1])
		}
		if i+1 < len(pages) {
			front["next"] = ref(pages[i+1])
		}
		text, err := s.links(p)
		if err != nil {
			return err
		}
		if err := s.content(name, front, text); err != nil {
			return err
		}
	}
	if err := s.plain(pages, append([]string{""}, groups...)); err != nil {
		return err
	}
	for i, group := range groups {
		var text strings.Builder
		for _, p := range pages {
			if p.group == group {
				fmt.Fprintf(&text, "- [%s](/%s)\n", p.title, p.address)
			}
		}
		front := map[string]any{"title": group, "url": "/" + slug(group) + ".html", "weight": len(pages) + i, "prev": false, "next": false}
		if err := s.content(slug(group)+"/_index.md", front, text.String()); err != nil {
			return err
		}
	}
	for file := range s.static {
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return err
		}
		if err := s.file(filepath.Join("static", strings.TrimPrefix(file, "docs/")), data); err != nil {
			return err
		}
	}
	data, err := json.Marshal(map[string]any{"params": map[string]any{"version": version, "versions": versions}})
	if err != nil {
		return err
	}
	return s.file("version.yaml", data)
}

// plain writes each page as Markdown beside its HTML, and llms.txt, the list of them for programs that read documentation (llmstxt.org).
func (s site) plain(pages []page, groups []string) error {
	s.markdown = true
	var list strings.Builder
	for _, group := range groups {
		if group == "" {
			fmt.Fprintf(&list, "# %s\n\n> %s\n\n", pages[0].title, summary(pages[0].text))
		} else {
			fmt.Fprintf(&list, "\n## %s\n\n", group)
		}
		for _, p := range pages {
			if p.group != group {
				continue
			}
			name := s.at(page{}, p.address)
			fmt.Fprintf(&list, "- [%s](%s): %s\n", p.title, name, summary(p.text))
			text, err := s.links(p)
			if err != nil {
				return err
			}
			if err := s.file(filepath.Join("static", name), []byte("# "+p.title+"\n"+text)); err != nil {
				return err
			}
		}
	}
	return s.file(filepath.Join("static", "llms.txt"), []byte(list.String()))
}

// summary returns the first sentence of the prose of a page, with the texts of its links.
func summary(text string) string {
	for paragraph := range strings.SplitSeq(fences.ReplaceAllString(text, ""), "\n\n") {
		if paragraph = strings.TrimSpace(paragraph); paragraph != "" && !strings.ContainsAny(paragraph[:1], "<[!#`|-") {
			words := strings.Join(strings.Fields(linkText.ReplaceAllString(paragraph, "$1")), " ")
			sentence, _, _ := strings.Cut(words+" ", ". ")
			return strings.TrimRight(sentence, " .")
		}
	}
	return ""
}

// at returns how a page names an address of the site.
func (s site) at(p page, address string) string {
	if !s.markdown {
		return "/" + address
	}
	if name, ok := strings.CutSuffix(address, ".html"); ok {
		address = name + ".md"
	}
	return strings.Repeat("../", strings.Count(p.address, "/")) + address
}

func slug(group string) string { return strings.ReplaceAll(strings.ToLower(group), " ", "-") }

// contentName returns the path below content: sections are the groups.
func contentName(p page) string {
	return path.Join(slug(p.group), strings.ReplaceAll(strings.TrimSuffix(p.address, ".html"), "/", "-")+".md")
}

func ref(p page) string {
	if p.file == "README.md" {
		return "/"
	}
	return "/" + strings.TrimSuffix(contentName(p), ".md")
}

func (s site) content(name string, front map[string]any, text string) error {
	head, err := json.MarshalIndent(front, "", " ") // front matter may be JSON
	if err != nil {
		return err
	}
	return s.file(filepath.Join("content", name), append(append(head, '\n', '\n'), text...))
}

func (s site) file(name string, data []byte) error {
	name = filepath.Join(s.source, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644)
}

// links returns the text of a page with the links that they are in the site.
func (s site) links(p page) (string, error) {
	var b strings.Builder
	var problems []error
	replace := func(prose string) string {
		for _, expr := range []*regexp.Regexp{linkTo, attribute} {
			prose = expr.ReplaceAllStringFunc(prose, func(link string) string {
				m := expr.FindStringSubmatch(link)
				to, err := s.link(p, m[2])
				problems = append(problems, err)
				return m[1] + to + m[3]
			})
		}
		return prose
	}
	fenced := false
	for line := range strings.Lines(p.text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if fenced {
			b.WriteString(line)
			continue
		}
		// Code in a title of a link stays, code with brackets is no link.
		var codes []string
		line = inline.ReplaceAllStringFunc(line, func(code string) string {
			codes = append(codes, code)
			return "\x00"
		})
		for part := range strings.SplitSeq(replace(line), "\x00") {
			b.WriteString(part)
			if len(codes) > 0 {
				b.WriteString(codes[0])
				codes = codes[1:]
			}
		}
	}
	return b.String(), errors.Join(problems...)
}

// link returns the address of what a link of a page names: another page, a file beside the pages, or a file of the repository.
func (s site) link(p page, to string) (string, error) {
	if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") || strings.HasPrefix(to, "#") {
		return to, nil
	}
	name, anchor, _ := strings.Cut(to, "#")
	if anchor != "" {
		anchor = "#" + anchor
	}
	file := path.Join(path.Dir(p.file), name)
	if target, ok := s.byFile[file]; ok {
		return s.at(p, target.address) + anchor, nil
	}
	info, err := os.Stat(filepath.Join(s.root, file))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: link to %s: %w", p.file, to, err)
	case info.IsDir():
		return repository + "/tree/" + s.version + "/" + file + anchor, nil
	case slices.Contains([]string{".png", ".svg"}, path.Ext(file)), strings.HasPrefix(file, "docs/") && path.Ext(file) == ".json":
		s.static[file] = true
		return s.at(p, strings.TrimPrefix(file, "docs/")), nil
	}
	return repository + "/blob/" + s.version + "/" + file + anchor, nil
}
