package recording

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// leastText is the length from which a text is replaced outside of its place.
const leastText = 4

// marker begins each replacement; 8 hexadecimal digits follow.
const (
	marker            = "redacted-"
	replacementLength = len(marker) + 8
)

// texts are secret texts, and replace them in other texts. The time is proportional to the other text, whatever the secrets are: users choose
// both.
type texts struct {
	// with are the replacements of values, ours all replacements, which stay as they are.
	with map[string]string
	ours map[string]bool
	// needles are what is looked for. They are in order if sorted; then those that begin with the bytes a and b are those between
	// starts[a<<8+b] and the next one.
	needles []needle
	sorted  bool
	starts  []int32
}

type needle struct{ text, with string }

func newTexts() *texts {
	return &texts{with: map[string]string{}, ours: map[string]bool{}}
}

// longestNeedle is the length from which a text is looked for in pieces. They are as long as what a line of wrapped base64 encodes: 76
// characters by default, 64 in PEM and of openssl.
const longestNeedle = 57

var pieces = []int{longestNeedle, 48}

// add makes a value be replaced, its lines, and the forms that they have in JSON.
func (t *texts) add(value, with string) {
	if _, known := t.with[value]; known {
		return
	}
	t.with[value] = with
	t.forms(value, with)
	if strings.ContainsAny(value, "\n\r\t ") {
		for line := range strings.SplitSeq(value, "\n") {
			t.forms(strings.TrimSuffix(line, "\r"), with)
			t.forms(strings.TrimSpace(line), with)
		}
	}
}

func (t *texts) forms(text, with string) {
	t.needle(text, with)
	// Twice: objects contain JSON as text, and are printed as JSON.
	for _, once := range escaped(text) {
		t.needle(once, with)
		for _, twice := range escaped(once) {
			t.needle(twice, with)
		}
	}
}

// escaped are the forms of a text in JSON, if they differ: encoders may escape what is special in HTML, or all that is not ASCII.
func escaped(text string) (forms []string) {
	if !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r) }) {
		return nil
	}
	for _, encode := range []func(string) string{quotePlain, quoteHTML, quoteASCII} {
		if form := encode(text); form != text && !slices.Contains(forms, form) {
			forms = append(forms, form)
		}
	}
	return forms
}

func quotePlain(text string) string { return quoteWith(marshal, text) }
func quoteHTML(text string) string  { return quoteWith(json.Marshal, text) }

func quoteWith(encode func(any) ([]byte, error), text string) string {
	quoted, err := encode(text)
	if err != nil {
		return text
	}
	return string(quoted[1 : len(quoted)-1])
}

// quoteASCII is what Python and jq -a write.
func quoteASCII(text string) string {
	plain := quotePlain(text)
	var b []byte
	for _, r := range plain {
		if r < utf8.RuneSelf {
			b = append(b, byte(r))
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			b = fmt.Appendf(b, `\u%04x`, unit)
		}
	}
	return string(b)
}

func (t *texts) needle(text, with string) {
	if len(text) > longestNeedle {
		for _, n := range pieces {
			for rest := text; rest != ""; {
				end := n
				if len(rest) < n+leastText { // no piece is too short to be looked for
					end = len(rest)
				}
				t.needles = append(t.needles, needle{rest[:end], with})
				rest = rest[end:]
			}
		}
	} else if len(text) >= leastText {
		t.needles = append(t.needles, needle{text, with})
	}
	t.sorted = false
}

// sort makes the needles ready to be looked for. Of equal ones, the first one stays.
func (t *texts) sort() {
	slices.SortStableFunc(t.needles, func(a, b needle) int { return strings.Compare(a.text, b.text) })
	t.needles = slices.CompactFunc(t.needles, func(a, b needle) bool { return a.text == b.text })
	t.starts = make([]int32, 1<<16+1)
	for _, n := range t.needles {
		t.starts[beginning(n.text)+1]++
	}
	for i := range 1 << 16 {
		t.starts[i+1] += t.starts[i]
	}
	t.sorted = true
}

func beginning(text string) int { return int(text[0])<<8 + int(text[1]) }

// replace replaces all texts in s.
func (t *texts) replace(s string) string {
	if len(t.needles) == 0 || len(s) < leastText || t.ours[s] {
		return s
	}
	if !t.sorted {
		t.sort()
	}
	return t.layer(s, 0)
}

// match is a part of a text and what replaces it.
type match struct {
	from, to int
	with     string
	encoded  bool
}

// layer replaces texts in s, which is below so many layers of base64.
func (t *texts) layer(s string, layer int) string {
	found := t.plain(s)
	if layer < maxLayers {
		found = append(found, t.encoded(s, layer)...)
		slices.SortStableFunc(found, func(a, b match) int { return a.from - b.from })
	}
	if len(found) == 0 {
		return s
	}
	var b strings.Builder
	done := 0
	for i := 0; i < len(found); {
		m := found[i]
		for i++; i < len(found); i++ {
			next := found[i]
			// Of texts that overlap, no part may be left. Base64 that is beside a plain text in one word would be decoded together with it.
			if next.from >= m.to && (next.from > m.to || next.with != m.with || m.encoded) {
				break
			}
			m.to = max(m.to, next.to)
			if m.encoded {
				m.with, m.encoded = next.with, false
			}
		}
		b.WriteString(s[done:m.from])
		b.WriteString(m.with)
		done = m.to
	}
	b.WriteString(s[done:])
	return b.String()
}

// plain finds what is not encoded.
func (t *texts) plain(s string) (found []match) {
	end := 0
	for i := 0; i+leastText <= len(s); i++ {
		if i >= end && len(s) >= i+replacementLength && s[i] == marker[0] && t.ours[s[i:i+replacementLength]] {
			i += replacementLength - 1 // a text may be a part of it
			continue
		}
		if n, with := t.at(s[i:]); n > 0 && i+n > end {
			found = append(found, match{from: i, to: i + n, with: with})
			end = i + n
		}
	}
	return found
}

// at returns the length of the longest text that s begins with, and its replacement. Programs such as jq shorten the values in their errors, so
// the beginning of a text with dots after it counts, too.
func (t *texts) at(s string) (n int, with string) {
	if len(s) < leastText {
		return 0, ""
	}
	list := t.needles[t.starts[beginning(s)]:t.starts[beginning(s)+1]]
	if len(list) == 0 {
		return 0, ""
	}
	next, _ := search(list, s)
	// Neighbours have the longest common prefixes.
	for _, text := range list[max(0, next-1):min(len(list), next+1)] {
		if common := commonPrefix(s, text.text); common >= leastText && common > n && isDots(s[common:]) {
			n, with = common, text.with
		}
	}
	for len(s) > n {
		i, found := search(list, s)
		if found {
			return len(s), list[i].with
		}
		if i == 0 {
			break
		}
		// A longer text that s begins with would be between both.
		s = s[:commonPrefix(s, list[i-1].text)]
	}
	return n, with
}

func search(list []needle, s string) (int, bool) {
	return slices.BinarySearchFunc(list, s, func(n needle, s string) int { return strings.Compare(n.text, s) })
}

func commonPrefix(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func isDots(s string) bool {
	s = strings.TrimPrefix(s, " ")
	return strings.HasPrefix(s, "...") || strings.HasPrefix(s, "…")
}

const (
	// leastEncoded is the length of base64 of the shortest text.
	leastEncoded = 6
	// maxLayers is the number of layers of base64 that are decoded.
	maxLayers = 3
	// maxRounds bounds how often texts are replaced in one piece of base64, once for each offset with some. After that, all of it is.
	maxRounds = 8
)

// isEncoded are the characters of base64, and of its variant for URLs.
var isEncoded = func() (is [256]bool) {
	for c := range 256 {
		is[c] = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '-' || c == '_'
	}
	return is
}()

// leastWrapped is the length from which a line of base64 may continue in the next one.
const leastWrapped = 60

// run returns the end of a run of base64 that begins at i, and its characters without line ends.
func run(s string, i int) (end int, piece string) {
	var lines strings.Builder
	end = i
	for line := i; ; {
		for end < len(s) && isEncoded[s[end]] {
			end++
		}
		next := end
		for _, lineEnd := range []string{"\r", "\n", `\r`, `\n`} { // also escaped in JSON
			next += len(s[next:]) - len(strings.TrimPrefix(s[next:], lineEnd))
		}
		goesOn := end-line >= leastWrapped && next > end && next < len(s) && isEncoded[s[next]]
		if line == i && !goesOn {
			return end, s[i:end] // most runs
		}
		lines.WriteString(s[line:end])
		if !goesOn {
			return end, lines.String()
		}
		line, end = next, next
	}
}

// encoded finds texts in base64. What is around a text may be encoded with it.
func (t *texts) encoded(s string, layer int) (found []match) {
	for i := 0; i < len(s); i++ {
		if !isEncoded[s[i]] {
			continue
		}
		end, piece := run(s, i)
		if len(piece) >= leastEncoded && !t.ours[piece] {
			if replaced := t.piece(piece, layer); replaced != piece {
				from := i
				for end < len(s) && s[end] == '=' { // the new piece has its own
					end++
				}
				found = append(found, match{from, end, replaced, true})
			}
		}
		i = end
	}
	return found
}

var standard = strings.NewReplacer("-", "+", "_", "/")

// piece decodes characters of base64 from each possible offset, because characters before the encoded text may look like a part of it.
func (t *texts) piece(piece string, layer int) string {
	padding := ""
	for range maxRounds {
		changed := false
		for offset := 0; offset < 4 && !changed; offset++ {
			chars := standard.Replace(piece[min(offset, len(piece)):])
			whole := len(chars)
			if whole%4 == 1 {
				whole--
			}
			decoded, err := base64.RawStdEncoding.DecodeString(chars[:whole])
			if err != nil {
				continue
			}
			if replaced := t.layer(string(decoded), layer+1); replaced != string(decoded) {
				encoded := base64.RawStdEncoding.EncodeToString([]byte(replaced))
				padding = strings.Repeat("=", (4-len(encoded)%4)%4)
				piece, changed = piece[:offset]+encoded+chars[whole:], true
			}
		}
		if !changed {
			return piece + padding
		}
	}
	return "redacted"
}
