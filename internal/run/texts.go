package run

import "github.com/shell-operator/shell-operator/internal/hook"

// Texts say where the files of hooks are. The files themselves may be those of other hooks meanwhile.
type Texts interface {
	// Take is called when it is certain as which hook a run goes on. Hooks are not replaced between the two.
	Take() Text
}

// Text is where the files are for one run.
type Text interface {
	// At returns where the hook is now that was loaded from path.
	At(path string) string
	// Release is called when the run has ended.
	Release()
}

// unchanging is for those who do not follow files.
type unchanging struct{}

func (unchanging) Take() Text            { return unchanging{} }
func (unchanging) At(path string) string { return path }
func (unchanging) Release()              {}

// at returns the hook as one whose file is elsewhere.
func at(path string, h *hook.Hook) *hook.Hook {
	if path == h.Path {
		return h
	}
	moved := *h
	moved.Path = path
	return &moved
}
