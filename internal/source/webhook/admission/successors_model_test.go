package admission

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// Over random reloads and restarts with files that are renamed, and bindings that are renamed, moved and removed, with starts that take
// long or fail: a name that the files have stays registered, a removed one is taken out within leaveFor, and when all is ready, the files
// alone are registered.
func TestSuccessorsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		files := rapid.Custom(func(rt *rapid.T) map[string]string { // of names
			all := map[string]string{}
			for _, name := range []string{"a", "b", "c", "d"} {
				if file := rapid.SampledFrom([]string{"", "x.sh", "y.sh", "z/x.sh"}).Draw(rt, name); file != "" {
					all[name] = file
				}
			}
			return all
		})
		sets := rapid.SliceOfN(files, 1, 5).Draw(rt, "sets")
		synctest.Test(t, func(t *testing.T) {
			s := &successors{t: t, stop: func() {}}
			defer func() { s.stop() }()
			registered := func() (names []string) {
				for line := range strings.Lines(s.registered()) {
					if name := strings.Fields(line)[0]; name != "none" {
						names = append(names, name)
					}
				}
				return names
			}
			for i, set := range sets {
				before, words, byFile := registered(), []string{"files"}, map[string][]string{}
				for name, file := range set {
					byFile[file] = append(byFile[file], name)
				}
				for file, names := range byFile {
					words = append(words, file+"="+strings.Join(names, ","))
				}
				slices.Sort(words[1:])
				s.do(words)
				check := func(when string, taken bool) {
					now := registered()
					for _, name := range before {
						if _, is := set[name]; is && !slices.Contains(now, name) {
							t.Errorf("set %d, %s: %s is not registered", i, when, name)
						}
					}
					for _, name := range now {
						if _, is := set[name]; !is && taken {
							t.Errorf("set %d, %s: %s was removed", i, when, name)
						}
					}
				}
				check("at first", false)
				for _, file := range words[1:] {
					name, _, _ := strings.Cut(file, "=")
					if rapid.Bool().Draw(rt, fmt.Sprintf("%s fails in %d", name, i)) {
						s.do([]string{"stuck", name})
						check(name+" fails", false)
					}
				}
				if rapid.Bool().Draw(rt, fmt.Sprintf("%d is replaced early", i)) {
					continue
				}
				time.Sleep(leaveFor)
				check("later", false)
				for _, file := range words[1:] {
					name, _, _ := strings.Cut(file, "=")
					s.do([]string{"ready", name})
					check(name+" is ready", false)
				}
				check("in the end", true)
				if got := registered(); len(got) != len(set) {
					t.Errorf("set %d: registered are %q, in the files %v", i, got, set)
				}
			}
		})
		if t.Failed() {
			rt.Fatalf("%v", sets)
		}
	})
}
