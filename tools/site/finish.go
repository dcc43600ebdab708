package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

var (
	rooted    = regexp.MustCompile(`( (?:href|src|data-root)=")(/[^"]*)(")`)
	integrity = regexp.MustCompile(` integrity="[^"]*"`)
)

// finish makes a site that Hugo built movable: links are relative, and each version has its index for the search.
func finish(to string, versions []string) error {
	for _, version := range versions {
		if err := finishVersion(to, version); err != nil {
			return err
		}
	}
	return nil
}

func finishVersion(to, version string) error {
	var index [][4]string
	root := filepath.Join(to, version)
	err := walk(root, func(name string, data []byte) error {
		if path.Ext(name) != ".html" {
			return nil
		}
		up := strings.Repeat("../", strings.Count(name, "/"))
		if up == "" {
			up = "./"
		}
		text := rooted.ReplaceAllStringFunc(string(data), func(attribute string) string {
			m := rooted.FindStringSubmatch(attribute)
			return m[1] + relative(to, up, m[2]) + m[3]
		})
		// A browser refuses files of a disk with a checksum.
		text = integrity.ReplaceAllString(text, "")
		sections, err := sections(name, text)
		index = append(index, sections...)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(root, name), []byte(text), 0o644)
	})
	if err != nil {
		return err
	}
	data, err := json.Marshal(index)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "search-index.js"), append(append([]byte("window.searchIndex="), data...), ";\n"...), 0o644)
}

// relative returns an address below the root of a version as seen from a page, from which up leads to the root. A page that another version
// does not have becomes the first one of that version.
func relative(to, up, address string) string {
	other, ok := strings.CutPrefix(address, "/../")
	if !ok {
		address = strings.TrimPrefix(address, "/")
		if name, anchor, found := strings.Cut(address, "#"); name == "" && found {
			return up + "index.html#" + anchor
		}
		if address == "" {
			return up
		}
		return up + address
	}
	if info, err := os.Stat(filepath.Join(to, other)); err != nil || info.IsDir() {
		version, _, _ := strings.Cut(other, "/")
		other = version + "/index.html"
	}
	return up + "../" + other
}

// walk calls f with the path and content of every file.
func walk(root string, f func(name string, data []byte) error) error {
	return filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return f(filepath.ToSlash(name), data)
	})
}

// sections returns address, title of the page, heading and text of each section of a page.
func sections(name, text string) ([][4]string, error) {
	doc, err := html.Parse(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	content := find(doc, func(n *html.Node) bool { return n.Data == "div" && attr(n, "class") == "content" })
	if content == nil {
		return nil, nil
	}
	found := [][4]string{{name}}
	var words strings.Builder
	end := func() {
		found[len(found)-1][3] = strings.Join(strings.Fields(words.String()), " ")
		words.Reset()
	}
	var visit func(n *html.Node)
	visit = func(n *html.Node) {
		switch {
		case n.Type == html.TextNode:
			words.WriteString(n.Data)
			return
		case n.Data == "button" || n.Data == "svg" || n.Data == "script":
			return
		case n.Data == "h1":
			found[0][1] = strings.TrimSpace(plain(n))
			return
		case n.Data == "h2" || n.Data == "h3" || n.Data == "h4":
			end()
			at := name
			if id := find(n, func(n *html.Node) bool { return attr(n, "id") != "" }); id != nil {
				at += "#" + attr(id, "id")
			}
			found = append(found, [4]string{at, found[0][1], strings.TrimSpace(plain(n)), ""})
			return
		}
		for c := range n.ChildNodes() {
			visit(c)
		}
		// What is one word stays one: `patch`es.
		if n.Type == html.ElementNode && !slices.Contains([]string{"a", "b", "code", "em", "span", "strong"}, n.Data) {
			words.WriteString(" ")
		}
	}
	visit(content)
	end()
	return found, nil
}

func plain(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

func find(n *html.Node, is func(*html.Node) bool) *html.Node {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && is(d) {
			return d
		}
	}
	return nil
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}
