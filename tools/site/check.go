package main

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// foreign finds what a style or a script would fetch from another host. Names of XML are no addresses.
var foreign = regexp.MustCompile(`(?:url\(["']?|@import ["']?|fetch\(["'\x60]|import\(["'\x60]|\.src ?= ?["'\x60])(?:https?:)?//[^\s"')]+`)

// check returns what is wrong with a site: links without a target, requests to other hosts, pages without a title of their own, pages
// that the search or the pages before do not lead to.
func check(root string) (problems []string, err error) {
	files, indexes := map[string]*html.Node{}, map[string]string{}
	wrong := func(name, format string, args ...any) {
		problems = append(problems, name+": "+fmt.Sprintf(format, args...))
	}
	err = walk(root, func(name string, data []byte) error {
		files[name] = nil
		switch path.Ext(name) {
		case ".html":
			doc, err := html.Parse(strings.NewReader(string(data)))
			files[name] = doc
			return err
		case ".css", ".js":
			if path.Base(name) == "search-index.js" {
				indexes[path.Dir(name)] = string(data)
				return nil
			}
			for _, m := range foreign.FindAllString(string(data), -1) {
				wrong(name, "a request to another host: %s", m)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	anchors := map[string]map[string]bool{}
	for name, doc := range files {
		if doc == nil {
			continue
		}
		anchors[name] = map[string]bool{}
		for d := range doc.Descendants() {
			if id := attr(d, "id"); id != "" {
				anchors[name][id] = true
			}
		}
	}
	titles, reached := map[string]string{}, map[string]bool{}
	for name, doc := range files {
		if doc == nil {
			continue
		}
		for d := range doc.Descendants() {
			if d.Type != html.ElementNode {
				continue
			}
			for _, a := range d.Attr {
				if !slices.Contains([]string{"href", "src", "srcset", "action", "poster", "data"}, a.Key) {
					continue
				}
				to, err := url.Parse(strings.TrimSpace(a.Val))
				switch {
				case err != nil:
					wrong(name, "%s is no address: %v", a.Val, err)
				case to.Scheme == "data":
				case to.Host != "" || to.Scheme != "":
					if d.Data != "a" {
						wrong(name, "a request to another host: %s of %s is %s", a.Key, d.Data, a.Val)
					}
				default:
					target := name
					if to.Path != "" {
						target = path.Join(path.Dir(name), to.Path)
						if strings.HasSuffix(to.Path, "/") {
							target = path.Join(target, "index.html")
						}
					}
					if target != name {
						reached[target] = true
					}
					if _, ok := files[target]; !ok || strings.HasPrefix(to.Path, "/") {
						wrong(name, "a dead link to %s", a.Val)
					} else if to.Fragment != "" && files[target] != nil && !anchors[target][to.Fragment] {
						wrong(name, "a link to %s: that page has no such heading", a.Val)
					}
				}
			}
			if d.Data == "style" {
				for _, m := range foreign.FindAllString(plain(d), -1) {
					wrong(name, "a request to another host: %s", m)
				}
			}
		}
		version, page, ok := strings.Cut(name, "/")
		if !ok {
			continue
		}
		heading := find(doc, func(n *html.Node) bool { return n.Data == "h1" })
		title := find(doc, func(n *html.Node) bool { return n.Data == "title" })
		if heading == nil || title == nil || !strings.Contains(plain(title), strings.TrimSpace(plain(heading))) {
			wrong(name, "the page is not named as its first heading")
			continue
		}
		if other := titles[version+plain(title)]; other != "" {
			wrong(name, "has the title of %s", other)
		}
		titles[version+plain(title)] = name
		if !strings.Contains(indexes[version], `["`+page+`",`) {
			wrong(name, "the search does not find it")
		}
	}
	for name, doc := range files {
		if doc != nil && !reached[name] && name != "index.html" {
			wrong(name, "no page links it")
		}
	}
	slices.Sort(problems)
	return problems, nil
}
