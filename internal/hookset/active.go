package hookset

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// Set is a loaded set of hooks.
type Set struct {
	// Hooks are in order. Their paths are those in the hooks directory.
	Hooks []*hook.Hook
	// Found are the files of the hooks directory that were loaded.
	Found Files
	files *copied
	// own are the digests of the files of each hook, before the digests of the active hooks, by name.
	own, before map[string]digest
}

// Change is the difference between the active hooks and a Set.
type Change struct {
	// Hooks are the hooks of the set in order. A hook whose configuration is equal is the active value.
	Hooks []*hook.Hook
	// New are the hooks of the set that are not active, Old the active ones that are not in the set. A hook with another
	// configuration is in both.
	New, Old []*hook.Hook
	// Touched are the active hooks of the set whose own file, or a file that it sources, differs.
	Touched []*hook.Hook
	// Added, Changed and Removed are names.
	Added, Changed, Removed []string
}

// ChangeFrom compares the set with the active hooks, by name.
func (s *Set) ChangeFrom(active []*hook.Hook) Change {
	var c Change
	before := map[string]*hook.Hook{}
	for _, h := range active {
		before[h.Name] = h
	}
	for _, h := range s.Hooks {
		was := before[h.Name]
		delete(before, h.Name)
		switch {
		case was == nil:
			c.Added, c.New = append(c.Added, h.Name), append(c.New, h)
		case s.equal(was, h):
			if s.own[h.Name] != s.before[h.Name] {
				c.Touched = append(c.Touched, was)
			}
			h = was
		default:
			c.Changed, c.New, c.Old = append(c.Changed, h.Name), append(c.New, h), append(c.Old, was)
		}
		c.Hooks = append(c.Hooks, h)
	}
	for _, h := range active {
		if before[h.Name] != nil {
			c.Removed, c.Old = append(c.Removed, h.Name), append(c.Old, h)
		}
	}
	return c
}

// equal ignores the path of a hook that runs from a copy: a link to the hooks directory may lead elsewhere now.
func (s *Set) equal(active, loaded *hook.Hook) bool {
	return (s.files.dir != "" || active.Path == loaded.Path) && sameConfiguration(active, loaded)
}

// sameConfiguration reports whether hooks have equal configurations.
func sameConfiguration(a, b *hook.Hook) bool {
	same := *a
	same.Path, same.Printed = b.Path, b.Printed // by the meaning, not by the text
	return reflect.DeepEqual(&same, b)
}

// copied is a copy of the hooks directory.
type copied struct {
	// dir is empty when there is no copy.
	dir string
	// number is the number of the set, counted by Use.
	number int
	// uses counts the hooks that run from the copy and the runs that have it open.
	uses int
}

// StoreOptions are the options of a Store.
type StoreOptions struct {
	// Dir is a private directory for copies. Without it hooks run from their own files.
	Dir string
	Log *slog.Logger
	// Limit is the maximum size of a copy in bytes; 0 means 256 MiB.
	Limit int64
}

// Store holds the immutable copies of the files of the active hooks. A hook runs from the copy of the last set that it
// belongs to. A copy is removed when neither a hook nor a run uses it. It is safe for concurrent use.
type Store struct {
	opts StoreOptions

	mu     sync.Mutex
	active map[*hook.Hook]*copied
	// own are the digests of the active hooks.
	own    map[string]digest
	copies int
	// sets counts those that were used.
	sets   int
	warned bool
	// removals are goroutines that delete copies: a file system that blocks must not block the caller.
	removals sync.WaitGroup
}

// NewStore returns a Store without copies.
func NewStore(o StoreOptions) *Store {
	if o.Limit == 0 {
		o.Limit = 256 << 20
	}
	return &Store{opts: o, active: map[*hook.Hook]*copied{}}
}

// Close waits until the copies that are not used any more have been removed.
func (s *Store) Close() { s.removals.Wait() }

// attempts bounds how often the directory is copied again because a file changed while it was copied.
const attempts = 3

// Load copies the hooks directory and loads the hooks from the copy, so that their configurations come from the files
// that they run from. Call Use or Drop with the result.
func (s *Store) Load(ctx context.Context, o Options) (set *Set, err error) {
	set = &Set{files: &copied{}}
	for n := 1; ; n++ {
		set.Found = Look(o.Dir)
		if s.opts.Dir == "" {
			break
		}
		set.files, err = s.copy(ctx, o.Dir)
		if ctx.Err() != nil {
			s.Drop(set)
			return nil, ctx.Err()
		}
		s.warn(o.Dir, err)
		if err != nil {
			break
		}
		changed := slices.Concat(set.Found.Differences(Look(o.Dir)))
		if len(changed) == 0 {
			break
		}
		if n == attempts {
			s.opts.Log.Warn("A file changed each time the hooks directory was copied; the copy may be inconsistent", "path", changed[0])
			break
		}
		s.Drop(set)
	}
	o.from = set.files.dir
	if set.Hooks, err = Load(ctx, o); err != nil {
		s.Drop(set)
		return nil, err
	}
	if s.opts.Dir != "" { // or there are no reloads
		s.compare(set, o.Dir)
	}
	return set, nil
}

// compare prepares the comparison of the files of hooks with the files of the active hooks.
func (s *Store) compare(set *Set, dir string) {
	root := set.files.dir
	if root == "" {
		root = dir
	}
	set.own = map[string]digest{}
	for _, h := range set.Hooks {
		set.own[h.Name] = digestOf(root, dir, h.Name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	set.before = s.own
}

// copy returns a copy without a directory together with an error.
func (s *Store) copy(ctx context.Context, dir string) (*copied, error) {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return &copied{}, err
	}
	s.mu.Lock()
	s.copies++
	c := &copied{dir: filepath.Join(s.opts.Dir, "hooks-"+strconv.Itoa(s.copies))}
	s.mu.Unlock()
	if err = copyDirectory(ctx, root, c.dir, s.opts.Limit); err == nil && !s.executable() {
		err = errors.Join(errNotExecutable, os.RemoveAll(c.dir))
	}
	if err != nil {
		return &copied{}, err
	}
	return c, nil
}

// warn logs once that hooks run from their own files.
func (s *Store) warn(dir string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && !s.warned {
		s.opts.Log.Warn("The hooks directory is not copied: hooks run from the files themselves, also while these change",
			"path", dir, "error", err.Error())
	}
	s.warned = err != nil
}

var errNotExecutable = errors.New("the temp directory is mounted with noexec: set another one with --tmp-dir")

// executable reports whether files can be executed where copies are. With noexec access(2) fails for root, too.
func (s *Store) executable() bool {
	f, err := os.CreateTemp(s.opts.Dir, "executable-")
	if err != nil {
		return false
	}
	defer os.Remove(f.Name())
	const mayExecute = 1
	err = errors.Join(f.Chmod(0o700), f.Close())
	return err == nil && syscall.Access(f.Name(), mayExecute) == nil
}

// Use makes hooks run from the files of a set. Other hooks keep theirs until Forget.
func (s *Store) Use(set *Set, hooks []*hook.Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own = set.own
	s.sets++
	set.files.number = s.sets
	set.files.uses++ // as below
	for _, h := range hooks {
		set.files.uses++
		s.unuse(s.active[h])
		s.active[h] = set.files
	}
	s.unuse(set.files)
}

// Forget removes hooks that do not run any more.
func (s *Store) Forget(h *hook.Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unuse(s.active[h])
	delete(s.active, h)
}

// Drop removes the copy of a set that is not used.
func (s *Store) Drop(set *Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(set.files)
}

// Take returns the path that a hook runs from, and the number of the set that it belongs to. The file stays until release is called.
func (s *Store) Take(h *hook.Hook) (path string, set int, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.active[h]
	switch {
	case c == nil:
		return h.Path, 0, func() {}
	case c.dir == "":
		return h.Path, c.number, func() {}
	}
	c.uses++
	return filepath.Join(c.dir, h.Name), c.number, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unuse(c)
	}
}

// unuse removes a copy with its last use. The caller holds mu.
func (s *Store) unuse(c *copied) {
	if c == nil {
		return
	}
	if c.uses--; c.uses == 0 {
		s.remove(c)
	}
}

func (s *Store) remove(c *copied) {
	if c.dir == "" {
		return
	}
	s.removals.Go(func() {
		if err := os.RemoveAll(c.dir); err != nil {
			s.opts.Log.Warn("Cannot remove a copy of the hooks directory", "path", c.dir, "error", err.Error())
		}
	})
}

// Problem describes for users where hooks run from while a reload is rejected; it is empty when they run from a copy.
func (s *Store) Problem() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.warned {
		return "there is no copy of the previous files, so hooks run from the files in the hooks directory as they are now"
	}
	return ""
}
