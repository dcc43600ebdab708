package process

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// readLines reads until the end.
func readLines(r io.Reader, deliver func([]byte), keep *tail) {
	l := lineReader{deliver: deliver, keep: keep, longest: maxLine}
	for l.from(r) == nil {
	}
}

// A line without end is delivered in pieces, and none of it is lost.
func TestEndlessLine(t *testing.T) {
	const size = maxLine + maxLine/2
	var sizes []int
	endless := io.LimitReader(repeated{'x'}, size)
	readLines(io.MultiReader(endless, strings.NewReader("\nnext")), func(line []byte) { sizes = append(sizes, len(line)) }, nil)
	if fmt.Sprint(sizes) != fmt.Sprint([]int{maxLine, size - maxLine, 4}) {
		t.Errorf("lines of %d bytes", sizes)
	}
}

// repeated yields one byte for ever, as pipes do in small pieces.
type repeated struct{ b byte }

func (r repeated) Read(p []byte) (int, error) {
	n := min(len(p), 4096)
	for i := range p[:n] {
		p[i] = r.b
	}
	return n, nil
}

// TestLinesAgainstSplit compares lines with what strings.Split returns, however the text is cut into reads.
func TestLinesAgainstSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		long := rapid.SampledFrom([]string{strings.Repeat("c", 4095), strings.Repeat("d", 9000)})
		line := rapid.OneOf(rapid.StringMatching(`[ab\r]{0,9}`), long)
		text := strings.Join(rapid.SliceOf(line).Draw(t, "lines"), "\n")
		want := strings.Split(text, "\n")
		if last := len(want) - 1; want[last] == "" {
			want = want[:last]
		}
		var r io.Reader = strings.NewReader(text)
		switch rapid.IntRange(0, 3).Draw(t, "reader") {
		case 0:
			r = iotest.OneByteReader(r)
		case 1:
			r = iotest.HalfReader(r)
		case 2:
			r = iotest.DataErrReader(r)
		}
		var got []string
		kept := &tail{}
		readLines(r, func(line []byte) { got = append(got, string(line)) }, kept)
		if strings.Join(got, "|") != strings.Join(want, "|") || len(got) != len(want) {
			t.Fatalf("got %q, want %q", got, want)
		}
		if string(kept.kept) != text && len(text) < maxTail {
			t.Fatalf("kept %q", kept.kept)
		}
	})
}

func TestTail(t *testing.T) {
	for _, test := range []struct {
		name string
		add  []string
		want string
	}{
		{"nothing", nil, ""},
		{"space around", []string{" \n a", " b\n", "\n"}, "a b"},
		{"just fits", []string{strings.Repeat("x", maxTail)}, strings.Repeat("x", maxTail)},
		{"one too many", []string{strings.Repeat("x", maxTail), "y"}, "… " + strings.Repeat("x", maxTail-1) + "y"},
		{"much too many", []string{strings.Repeat("x", 3*maxTail), "end"}, "… " + strings.Repeat("x", maxTail-3) + "end"},
		{"in many pieces", slicesOf("0123456789", 10*maxTail), "… " + strings.Repeat("0123456789", maxTail)[10*maxTail-maxTail:]},
	} {
		t.Run(test.name, func(t *testing.T) {
			var kept tail
			for _, text := range test.add {
				kept.add([]byte(text))
			}
			if got := kept.text(); got != test.want {
				t.Errorf("got %d bytes, %.20q … %q", len(got), got, got[max(0, len(got)-20):])
			}
			if cap(kept.kept) > 8*maxTail {
				t.Errorf("it holds %d bytes", cap(kept.kept))
			}
		})
	}
}

// slicesOf repeats text until it has size bytes.
func slicesOf(text string, size int) []string {
	return strings.SplitAfter(strings.Repeat(text, size/len(text)), text)
}
