package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// nextAct removes the first line of the file of faults to inject. The runs of one hook are sequential, so no other run
// takes it.
func nextAct(path string) string {
	text, err := os.ReadFile(path)
	if err != nil || len(text) == 0 {
		return ""
	}
	act, rest, _ := strings.Cut(string(text), "\n")
	if os.WriteFile(path+".new", []byte(rest), 0o600) != nil || os.Rename(path+".new", path) != nil {
		return ""
	}
	return act
}

// spoils reports whether an act must make the run a failed one, by its output or by missing files.
func spoils(act string) bool {
	word, _, _ := strings.Cut(act, " ")
	return slices.Contains([]string{"patch", "remove-run", "remove-outputs", "remove-all", "fifo", "endless", "directory"}, word)
}

// misbehave executes an act: a word and a number.
func misbehave(act, own string) error {
	word, number, _ := strings.Cut(act, " ")
	n, _ := strconv.Atoi(number)
	dir := filepath.Dir(os.Getenv("BINDING_CONTEXT_PATH"))
	patch := os.Getenv("KUBERNETES_PATCH_PATH")
	switch word {
	case "":
		return nil
	case "fail":
		return fmt.Errorf("requested failure")
	case "kill":
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "hang":
		time.Sleep(time.Hour)
	case "print": // n MiB, in lines of all lengths
		return print(n << 20)
	case "patch": // n MiB of patches, of which the last is wrong
		return patches(patch, n<<20)
	case "fork": // a child that keeps the output open and outlives the run by n seconds
		return fork(own, n)
	case "fill": // n MiB into the temp directory
		return fill(dir, n)
	case "remove-run":
		return os.RemoveAll(dir)
	case "remove-outputs":
		return os.Remove(patch)
	case "remove-all": // what the operator keeps in its temp directory, other runs included
		return os.RemoveAll(filepath.Dir(dir))
	case "fifo": // without a writer, ever
		_ = os.Remove(patch)
		return syscall.Mkfifo(patch, 0o600)
	case "endless":
		_ = os.Remove(patch)
		return os.Symlink("/dev/zero", patch)
	case "directory":
		_ = os.Remove(patch)
		return os.Mkdir(patch, 0o700)
	case "bytes": // output that is no text
		_, err := os.Stdout.Write([]byte("\xff\xfe\x00 no text \x80\n{\"msg\":\"\xff\"}\n"))
		return err
	case "slow": // n milliseconds
		time.Sleep(time.Duration(n) * time.Millisecond)
	default:
		return fmt.Errorf("unknown act %q", act)
	}
	return nil
}

func print(size int) error {
	block := bytes.Repeat([]byte("0123456789abcdef"), 1<<16/16)
	for i := 0; size > 0; i++ {
		n := min(size, 1+(i*7919)%len(block))
		block[n-1] = '\n'
		if _, err := os.Stdout.Write(block[:n]); err != nil {
			return err
		}
		block[n-1] = 'x'
		size -= n
	}
	return nil
}

func patches(path string, size int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	to, text := os.Getenv("CHAOS_MIRROR"), strings.Repeat("x", 100<<10)
	for i := 0; size > 0; i++ {
		n, err := fmt.Fprintf(f,
			`{"operation":"CreateOrUpdate","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":"half-%d"},`+
				`"data":{"text":%q}}}`+"\n", to, i, text)
		if err != nil {
			return err
		}
		size -= n
	}
	if _, err := f.WriteString(`{"operation":"CreateOrDestroy"}` + "\n"); err != nil {
		return err
	}
	return f.Close()
}

func fork(own string, seconds int) error {
	child := exec.Command("sleep", strconv.Itoa(seconds))
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return err
	}
	return os.WriteFile(own+".child", fmt.Append(nil, child.Process.Pid), 0o600)
}

func fill(dir string, mebibytes int) error {
	block := make([]byte, 1<<20)
	f, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		return err
	}
	defer f.Close()
	for range mebibytes {
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	return nil
}
