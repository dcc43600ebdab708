// Package pages reads the fenced blocks of documentation pages, compares what they show with what is there, and keeps
// generated parts of pages equal to what the code says. Only tests use it.
//
//   - Blocks are found in lists too, and come with the comment in front of them, which readers do not see. Whole blocks can be
//     in a comment; such a block of kind "file NAME" has the mark "file: NAME".
//   - "…" in what is shown stands for anything.
//   - Which test takes which block is decided elsewhere: in test/tutorial, where no block may be left over.
package pages

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Block is a fenced part of a page.
type Block struct {
	// Page is the path of the page below the directory that was searched, Line where the block begins.
	Page string
	Line int
	// Kind is what stands behind the fence: a language, and perhaps words that say what it is for.
	Kind, Text string
	// Mark is the comment in front of it, without the signs around it.
	Mark string
	// Hidden: it is inside of a comment, for tests only.
	Hidden bool
}

// Blocks returns the fenced parts of a page, in order.
func Blocks(page string) (all []Block) {
	var current *Block
	mark, indent, hidden := "", "", false
	for i, line := range strings.Split(page, "\n") {
		before, kind, fence := strings.Cut(line, "```")
		fence = fence && strings.TrimSpace(before) == ""
		switch {
		case fence && current == nil:
			if file, ok := strings.CutPrefix(kind, "file "); ok && hidden {
				kind, mark = "", "file: "+file
			}
			all = append(all, Block{Line: i + 1, Kind: kind, Mark: mark, Hidden: hidden})
			current, mark, indent = &all[len(all)-1], "", before
		case fence:
			current = nil
		case current != nil:
			current.Text += strings.TrimPrefix(line, indent) + "\n"
		case line == "<!--", line == "-->":
			hidden = line == "<!--"
		case strings.HasPrefix(line, "<!-- "):
			mark = strings.TrimSuffix(strings.TrimPrefix(line, "<!-- "), " -->")
		}
	}
	return all
}

// Pages returns the texts of all pages below root, by their paths below it. What was built or belongs to git is no page.
func Pages(root string) (map[string]string, error) {
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "bin"):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		all[filepath.ToSlash(name)] = string(text)
		return err
	})
	return all, err
}

// All returns the blocks of all pages below root, in order.
func All(root string) (all []Block, err error) {
	pages, err := Pages(root)
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		for _, b := range Blocks(pages[name]) {
			b.Page = name
			all = append(all, b)
		}
	}
	return all, err
}

// Contains reports whether a line of a text has what is shown.
func Contains(text, shown string) bool {
	for line := range strings.Lines(text) {
		if Like(line, shown) {
			return true
		}
	}
	return false
}

// Like reports whether a text has the parts of what is shown, in order. Pages may leave out the backslash with which the log
// escapes a quote.
func Like(text, shown string) bool {
	text, shown = strings.ReplaceAll(text, `\'`, "'"), strings.ReplaceAll(shown, `\'`, "'")
	for part := range strings.SplitSeq(shown, "…") {
		_, rest, ok := strings.Cut(text, part)
		if !ok {
			return false
		}
		text = rest
	}
	return true
}
