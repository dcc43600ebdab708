package run

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// files are those of one run.
type files struct {
	dir                                                   string
	contexts, metrics, admission, conversion, http, patch string
	// held is nil for files of which only the names are known.
	held *held
	// contextsEnd is how many bytes of contexts were written.
	contextsEnd int64
}

func filesIn(dir string) *files {
	in := func(name string) string { return dir + string(filepath.Separator) + name }
	return &files{
		dir: dir, contexts: in("binding-context.json"), metrics: in("metrics.json"),
		admission: in("admission-response.json"), conversion: in("conversion-response.json"), http: in("http-response.json"), patch: in("object-patch"),
	}
}

// contextsIndex is the place of contexts in files.all.
const contextsIndex = 5

// all are the files that there are before a run: those that the hook may write, and its contexts.
func (f *files) all() [contextsIndex + 1]string {
	return [...]string{f.metrics, f.admission, f.conversion, f.http, f.patch, f.contexts}
}

func makeEmpty(path string) error {
	file, err := openAt(path, syscall.O_CREAT|syscall.O_EXCL|syscall.O_WRONLY)
	file.close()
	return err
}

// environment are the variables that tell a hook about its files.
func (f *files) environment() []string {
	return []string{
		"BINDING_CONTEXT_PATH=" + f.contexts,
		"METRICS_PATH=" + f.metrics,
		"KUBERNETES_PATCH_PATH=" + f.patch,
		"VALIDATING_RESPONSE_PATH=" + f.admission,
		"ADMISSION_RESPONSE_PATH=" + f.admission,
		"CONVERSION_RESPONSE_PATH=" + f.conversion,
		"HTTP_RESPONSE_PATH=" + f.http,
	}
}

// Outputs is what a hook wrote into its files, as it is; nil stands for nothing.
type Outputs struct {
	Metrics, Admission, Conversion, HTTP, Patch []byte
}

// outputs reads the files that a hook may have written. A file that is gone is an error: nobody could
// tell what was meant.
func (f *files) outputs() (Outputs, error) {
	var out Outputs
	var errs []error
	held := f.stillHeld()
	for i, file := range [...]struct {
		variable, path string
		into           *[]byte
	}{
		{"METRICS_PATH", f.metrics, &out.Metrics},
		{"ADMISSION_RESPONSE_PATH", f.admission, &out.Admission},
		{"CONVERSION_RESPONSE_PATH", f.conversion, &out.Conversion},
		{"HTTP_RESPONSE_PATH", f.http, &out.HTTP},
		{"KUBERNETES_PATCH_PATH", f.patch, &out.Patch},
	} {
		// Most hooks leave most files empty.
		if held {
			if f.held.empty(i) {
				continue
			}
		} else if size, err := sizeOf(file.path); err == nil && size == 0 {
			continue
		}
		content, err := readOutput(file.path)
		switch {
		case errors.Is(err, os.ErrNotExist):
			errs = append(errs, fmt.Errorf("the hook removed the file that $%s names: leave it empty instead", file.variable))
		case err != nil:
			errs = append(errs, fmt.Errorf("cannot read what the hook wrote to $%s: %w", file.variable, err))
		case len(content) > 0:
			*file.into = content
		}
	}
	return out, errors.Join(errs...)
}

// maxOutput is how much a hook may hand back in one file. All of it has to be in memory, to be checked as a whole before
// anything of it is done.
const maxOutput = 256 << 20

// readOutput reads a file that a hook has written, or put something else in place of. What is no file, such as a pipe
// that nobody writes to, could be read for ever.
func readOutput(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("it is no longer a file, but %s: write into the file that is there", kindOf(info.Mode()))
	case info.Size() > maxOutput:
		return nil, fmt.Errorf("it is %d bytes long, more than %d: hand back less in one run", info.Size(), maxOutput)
	case info.Size() == 0:
		return nil, nil
	}
	content := make([]byte, info.Size())
	n, err := io.ReadFull(f, content)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // somebody has cut it meanwhile
	}
	return content[:n], err
}

func kindOf(mode os.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&os.ModeNamedPipe != 0:
		return "a pipe"
	case mode&os.ModeDevice != 0:
		return "a device"
	}
	return "something of the mode " + mode.String()
}

// remove removes the files and what else is in their directory.
func (f *files) remove() error {
	f.letGo()
	for _, path := range f.all() {
		_ = syscall.Unlink(path)
	}
	if syscall.Rmdir(f.dir) == nil {
		return nil
	}
	// The hook has put something there, or something is wrong.
	return os.RemoveAll(f.dir)
}

// safe is a hook's name as part of a file name: letters and digits, with a dash for whatever is between them.
func safe(hookName string) string {
	name := make([]byte, 0, min(len(hookName), 100))
	dash := false
	for i := 0; i < len(hookName) && len(name) < 100; i++ {
		c := hookName[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
			if dash && len(name) > 0 {
				name = append(name, '-')
			}
			name, dash = append(name, c), false
		default:
			dash = true
		}
	}
	return string(name[:min(len(name), 100)])
}
