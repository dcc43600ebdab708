package workspace

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Files are the files of one run, in a directory of their own.
type Files struct {
	dir string
	// outputs are in the order in which their errors are reported.
	outputs []output
	// own are variables that name other files of the hook.
	own []string
	// hasHeads reports that the file of heads was written.
	hasHeads bool
	// written is the file of contexts as WriteContexts has left it.
	written fileState
	// large is the file behind Outputs.Large; nil if there is none.
	large *os.File
}

// The names of files that are not Outputs.
const (
	contextsName = "binding-context.json"
	// headsName names the heads of the contexts, for the shell library, which finds them by it. Most runs have none.
	headsName = "binding-context.heads"
	// callsName names the file that the first call of kubectl makes, failureName the one that a library makes. Most runs have none.
	callsName   = "kubectl-calls"
	failureName = "failure"
)

func (f *Files) path(name string) string { return f.dir + "/" + name }

// Outputs is the content of the files that a hook wrote; nil stands for an empty file.
type Outputs struct {
	Metrics, Admission, Conversion, HTTP, Patch, Result []byte
	// Large is the file of operations instead of Patch, if that is large. It can be read until the files are removed.
	Large *io.SectionReader
}

// Empty reports that the hook requests nothing but what its result file has.
func (o *Outputs) Empty() bool {
	return o.Metrics == nil && o.Admission == nil && o.Conversion == nil && o.HTTP == nil && o.Patch == nil && o.Large == nil
}

// output is a file that hooks may write, and the variable that names it.
type output struct {
	variable, path string
	content        func(*Outputs) *[]byte
}

func filesIn(dir string, own []string) *Files {
	return &Files{dir: dir, own: own, outputs: []output{
		{"METRICS_PATH", dir + "/metrics.json", func(o *Outputs) *[]byte { return &o.Metrics }},
		{"ADMISSION_RESPONSE_PATH", dir + "/admission-response.json", func(o *Outputs) *[]byte { return &o.Admission }},
		{"CONVERSION_RESPONSE_PATH", dir + "/conversion-response.json", func(o *Outputs) *[]byte { return &o.Conversion }},
		{"HTTP_RESPONSE_PATH", dir + "/http-response.json", func(o *Outputs) *[]byte { return &o.HTTP }},
		{"KUBERNETES_PATCH_PATH", dir + "/object-patch", func(o *Outputs) *[]byte { return &o.Patch }},
		{"RUN_RESULT_PATH", dir + "/result", func(o *Outputs) *[]byte { return &o.Result }},
	}}
}

// create makes the directory, and the files that hooks may write.
func (f *Files) create() error {
	if err := os.Mkdir(f.dir, 0o700); err != nil {
		return err
	}
	for _, output := range f.outputs {
		file, err := os.OpenFile(output.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
	return nil
}

// WriteContexts makes the file of binding contexts and lets write fill it. If that fails, there is no file.
func (f *Files) WriteContexts(write func(io.Writer) error) error {
	if err := f.write(contextsName, write); err != nil {
		return fmt.Errorf("cannot write the binding context file: %w", err)
	}
	f.written = stateOf(f.Contexts())
	return nil
}

// WriteHeads makes the file of the heads of the contexts, which is never older than the contexts. If that fails, there is no file,
// and the shell library reads the contexts themselves.
func (f *Files) WriteHeads(heads []byte) {
	f.hasHeads = true
	_ = f.write(headsName, func(w io.Writer) error { _, err := w.Write(heads); return err })
}

// write makes a file, or none if that fails.
func (f *Files) write(name string, write func(io.Writer) error) error {
	file, err := os.OpenFile(f.path(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		err = errors.Join(write(&contextFile{file}), file.Close())
	}
	if err != nil {
		_ = os.Remove(f.path(name))
	}
	return err
}

// Contexts is the path of the file of binding contexts.
func (f *Files) Contexts() string { return f.path(contextsName) }

// ContextsChanged reports that the file of binding contexts is no longer the one that was written.
func (f *Files) ContextsChanged() bool { return !stateOf(f.Contexts()).sameContent(f.written) }

// contextFile has WritePieces where the system can do it.
type contextFile struct{ *os.File }

// remove removes the known files one by one: to let os.RemoveAll find them costs several times as much.
func (f *Files) remove() error {
	_ = os.Remove(f.Contexts()) // it may be a directory by now, as all of them
	_ = os.Remove(f.CallsFile())
	_ = os.Remove(f.path(failureName))
	if f.large != nil {
		_ = f.large.Close()
	}
	if f.hasHeads {
		_ = os.Remove(f.path(headsName))
	}
	for _, output := range f.outputs {
		_ = os.Remove(output.path)
	}
	return removeBelow(filepath.Dir(f.dir), filepath.Base(f.dir))
}

// Own returns the variables that are equal for all runs of the hook.
func (f *Files) Own() []string { return f.own }

// Pipes are the paths of the named pipes for the output of a run that a worker serves.
func (f *Files) Pipes() (stdout, stderr string) { return f.path("stdout"), f.path("stderr") }

// Environment returns the variables that name the files of the run.
func (f *Files) Environment() []string {
	env := make([]string, 0, 10)
	env = append(env, "BINDING_CONTEXT_PATH="+f.Contexts(), "RUN_FAILURE_PATH="+f.path(failureName))
	for _, output := range f.outputs {
		env = append(env, output.variable+"="+output.path)
		if output.variable == "ADMISSION_RESPONSE_PATH" { // upstream has another name for it
			env = append(env, "VALIDATING_RESPONSE_PATH="+output.path)
		}
	}
	return env
}

// largeFile is the size from which on a file is large. Operations of a smaller one are in memory with their text.
const largeFile = 8 << 20

// Large reports whether a file that the hook has written is large.
func (f *Files) Large() bool {
	return slices.ContainsFunc(f.outputs, func(o output) bool { return stateOf(o.path).size > largeFile })
}

// Outputs reads the files that a hook may have written. A missing one is an error, because the hook's intent is unknown, and so is one
// larger than limit; 0 means the default. Large reports that a large file of operations is not read, but becomes Outputs.Large.
func (f *Files) Outputs(limit int64, large bool) (Outputs, error) {
	limit = cmp.Or(limit, maxOutput)
	var out Outputs
	var errs []error
	for _, file := range f.outputs {
		most := limit
		if file.variable == "CONVERSION_RESPONSE_PATH" {
			most = max(limit, maxConversion)
		}
		opened, size, err := openOutput(file.path, most)
		if large && size > largeFile && file.variable == "KUBERNETES_PATCH_PATH" {
			f.large, out.Large = opened, io.NewSectionReader(opened, 0, size)
			continue
		}
		content := file.content(&out)
		if opened != nil {
			*content, err = readOutput(opened, size)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			errs = append(errs, fmt.Errorf("the hook removed the file that $%s names: leave it empty instead", file.variable))
		case err != nil:
			errs = append(errs, fmt.Errorf("cannot read what the hook wrote to $%s: %w", file.variable, err))
		}
	}
	return out, errors.Join(errs...)
}

// maxOutput limits one file by default: but for operations, the whole of it is in memory while it is checked. The API server
// sends whole lists to convert, up to 100 MiB, so their answers may have maxConversion.
const (
	maxOutput     = 32 << 20
	maxConversion = 128 << 20
)

// openOutput opens a regular file that is not empty; nil is an empty one. Anything else that a hook may have put in its place, such as a
// pipe, could block the reader.
func openOutput(path string, limit int64) (f *os.File, size int64, err error) {
	if info, err := os.Lstat(path); err != nil || info.Mode().IsRegular() && info.Size() == 0 {
		return nil, 0, err // most hooks leave most files empty, and to open one costs more
	}
	f, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, syscall.ELOOP) { // it may lead to what the operator can read and the hook cannot
		return nil, 0, errors.New("it is no longer a file, but a link: write into the file that is there")
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("it is no longer a file, but %s: write into the file that is there", kindOf(info.Mode()))
	case info.Size() > limit:
		err = fmt.Errorf("it is %d bytes long, more than %d: hand back less in one run, or set settings.maxFileBytes", info.Size(), limit)
	case info.Size() > 0:
		return f, info.Size(), nil
	}
	return nil, 0, errors.Join(err, f.Close())
}

// readOutput returns what a file contains, and closes it.
func readOutput(f *os.File, size int64) ([]byte, error) {
	defer f.Close()
	content := make([]byte, size)
	n, err := io.ReadFull(f, content)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // a process that the hook left behind has truncated it
	}
	if n == 0 {
		return nil, err
	}
	return content[:n], err
}

// CallsFile is where the calls of kubectl by the run are recorded.
func (f *Files) CallsFile() string { return f.path(callsName) }

// MaxCalls limits what Calls returns: 50,000 calls.
const MaxCalls = 1 << 20

// Calls returns the beginning of CallsFile, Failure the report of a library, up to 4 KiB. People read both, so a file that cannot be read
// counts as empty.
func (f *Files) Calls() []byte   { return f.beginning(callsName, MaxCalls) }
func (f *Files) Failure() []byte { return f.beginning(failureName, 4<<10) }

func (f *Files) beginning(name string, limit int64) (content []byte) {
	if missing(f.path(name)) { // as of most runs, and cheaper than openOutput
		return nil
	}
	if file, size, _ := openOutput(f.path(name), math.MaxInt64); file != nil {
		content, _ = readOutput(file, min(size, limit))
	}
	return content
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "something of the mode " + mode.String()
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
