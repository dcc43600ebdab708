package history

import "unicode/utf8"

// tail keeps the end of the lines that are added.
type tail struct {
	limit int
	kept  []byte
	cut   bool
}

func (t *tail) add(line []byte) {
	if over := len(line) - t.limit; over > 0 {
		line, t.cut = line[over:], true
	}
	t.kept = append(append(t.kept, line...), '\n')
	// Moving bytes once for each limit of them costs nothing that can be measured.
	if len(t.kept) > 2*t.limit {
		t.shorten()
	}
}

func (t *tail) shorten() {
	over := len(t.kept) - t.limit
	if over <= 0 {
		return
	}
	for over < len(t.kept) && !utf8.RuneStart(t.kept[over]) {
		over++
	}
	t.kept, t.cut = append(t.kept[:0], t.kept[over:]...), true
}

// text is what is kept, and whether there was more.
func (t *tail) text() (string, bool) {
	t.shorten()
	return string(t.kept), t.cut
}

// Cut keeps the beginning and the end of a long text.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	begin, end := limit/2, len(text)-limit/2
	for begin > 0 && !utf8.RuneStart(text[begin]) {
		begin--
	}
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end++
	}
	return text[:begin] + " … " + text[end:]
}
