package deploy

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// workflow is as much of a file of GitHub's as our own use.
type workflow struct {
	Env  map[string]string `json:"env"`
	Jobs map[string]job    `json:"jobs"`
}

type job struct {
	Needs []string          `json:"needs"`
	Env   map[string]string `json:"env"`
	Steps []step            `json:"steps"`
}

type step struct {
	Name string         `json:"name"`
	Uses string         `json:"uses"`
	Run  string         `json:"run"`
	If   string         `json:"if"`
	With map[string]any `json:"with"`
}

// actions runs jobs of a workflow on this machine: each in a directory of its own that begins empty, its shell text as it
// stands, and of the actions of others as much as the next steps see. Jobs hand over nothing but artifacts.
type actions struct {
	flow       workflow
	repository string            // what a checkout gives
	dir        string            // artifacts, and a directory for each job
	values     map[string]string // what expressions come to
	env        []string
}

func readWorkflow(text string) (workflow, error) {
	var w workflow
	err := yaml.Unmarshal([]byte(text), &w)
	return w, err
}

// run runs a job and returns all that it has printed.
func (a *actions) run(name string) (string, error) {
	return a.steps(name, func(step) bool { return true })
}

// steps runs those steps of a job that are wanted.
func (a *actions) steps(name string, wanted func(step) bool) (string, error) {
	j, ok := a.flow.Jobs[name]
	if !ok {
		return "", fmt.Errorf("there is no job %s", name)
	}
	work, err := os.MkdirTemp(a.dir, name+"-")
	if err != nil {
		return "", err
	}
	home := work + ".home"
	env := map[string]string{}
	maps.Copy(env, a.flow.Env)
	maps.Copy(env, j.Env)
	all := append([]string{}, a.env...)
	for key, value := range env {
		value, err := a.evaluate(value)
		if err != nil {
			return "", err
		}
		all = append(all, key+"="+value)
	}
	all = append(all, "HOME="+home)
	var said strings.Builder
	for _, s := range j.Steps {
		if !wanted(s) {
			continue
		}
		if is, err := a.evaluate(s.If); err != nil || is == "false" {
			if err != nil {
				return said.String(), err
			}
			continue
		}
		if s.Uses != "" {
			err = a.use(s, work, home)
		} else {
			var text string
			text, err = a.evaluate(s.Run)
			if err == nil {
				// The shell of GitHub, without pipefail.
				cmd := exec.Command("bash", "-e", "-c", text)
				cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = work, all, &said, &said
				err = cmd.Run()
			}
		}
		if err != nil {
			return said.String(), fmt.Errorf("job %s, step %q: %w", name, s.Name+s.Uses+s.Run, err)
		}
	}
	return said.String(), nil
}

var expression = regexp.MustCompile(`\$\{\{ *(.*?) *\}\}`)

func (a *actions) evaluate(text string) (string, error) {
	var problem error
	return expression.ReplaceAllStringFunc(text, func(found string) string {
		what := expression.FindStringSubmatch(found)[1]
		value, ok := a.values[what]
		if !ok {
			problem = fmt.Errorf("the test does not know the expression %q", what)
		}
		return value
	}), problem
}

// use does what an action leaves behind.
func (a *actions) use(s step, work, home string) error {
	with := func(key string) string {
		text, err := a.evaluate(fmt.Sprint(s.With[key]))
		if err != nil {
			return err.Error()
		}
		return text
	}
	switch name, _, _ := strings.Cut(s.Uses, "@"); name {
	case "actions/checkout":
		return copyTree(a.repository, work)
	case "actions/upload-artifact":
		return a.upload(filepath.Join(work, with("path")), with("name"))
	case "actions/download-artifact":
		return copyTree(filepath.Join(a.dir, "artifacts", with("name")), filepath.Join(work, with("path")))
	case "docker/login-action":
		auth := base64.StdEncoding.EncodeToString([]byte(with("username") + ":" + with("password")))
		text, err := json.Marshal(map[string]any{"auths": map[string]any{with("registry"): map[string]string{"auth": auth}}})
		return errors.Join(err, os.MkdirAll(filepath.Join(home, ".docker"), 0o700), os.WriteFile(filepath.Join(home, ".docker", "config.json"), text, 0o600))
	case "actions/setup-go", "docker/setup-qemu-action", "docker/setup-buildx-action":
		return nil
	}
	return fmt.Errorf("the test does not know the action %s", s.Uses)
}

// upload keeps files as GitHub does, which does not keep that they can be executed.
func (a *actions) upload(from, name string) error {
	to := filepath.Join(a.dir, "artifacts", name)
	if err := copyTree(from, to); err != nil {
		return err
	}
	return filepath.WalkDir(to, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return os.Chmod(path, 0o644)
	})
}

// copyTree keeps links and times, by which make goes.
func copyTree(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if out, err := exec.Command("cp", "-a", from+"/.", to).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot copy %s: %w: %s", from, err, out)
	}
	return nil
}
