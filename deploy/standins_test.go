package deploy

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// standins are the programs of a release that need GitHub or a container engine. Under their names, the test program does
// what they would, as far as later steps can see. A flag or a subcommand that is not known is an error.
var standins = map[string]func(args []string) error{"docker": docker, "gh": gh, "helm": helm}

func TestMain(m *testing.M) {
	if standin, ok := standins[filepath.Base(os.Args[0])]; ok {
		if err := standin(os.Args[1:]); err != nil {
			fmt.Fprintf(os.Stderr, "stand-in for %s: %v\n", strings.Join(os.Args, " "), err)
			os.Exit(1)
		}
		return
	}
	testenv.Main(m)
}

// parsed splits arguments. Those known that end in = have a value.
func parsed(args []string, known ...string) (flags map[string]string, rest []string, err error) {
	flags = map[string]string{}
	for ; len(args) > 0; args = args[1:] {
		name, isFlag := strings.CutPrefix(args[0], "-")
		if !isFlag {
			rest = append(rest, args[0])
			continue
		}
		name, value, given := strings.Cut(strings.TrimPrefix(name, "-"), "=")
		switch {
		case slices.Contains(known, name) && !given:
			value = "true"
		case slices.Contains(known, name+"=") && given:
		case slices.Contains(known, name+"=") && len(args) > 1:
			value, args = args[1], args[1:]
		default:
			return nil, nil, fmt.Errorf("no flag %s is known", args[0])
		}
		flags[name] = value
	}
	return flags, rest, nil
}

// store is the registry of a test, which stands behind a proxy.
type store struct{ proxy, login string }

// remote is the registry of the step that runs, with the login that an earlier one has left.
func remote() (store, error) {
	text, err := os.ReadFile(filepath.Join(os.Getenv("HOME"), ".docker", "config.json"))
	if err != nil {
		return store{}, errors.New("nobody has logged in")
	}
	var config struct {
		Auths map[string]struct{ Auth string }
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return store{}, err
	}
	login, err := base64.StdEncoding.DecodeString(config.Auths[registryHost].Auth)
	return store{proxy: os.Getenv("HTTP_PROXY"), login: string(login)}, err
}

func (s store) ask(method, path, mediaType string, body []byte) ([]byte, http.Header, error) {
	proxy, err := url.Parse(s.proxy)
	if err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequest(method, "http://"+registryHost+"/v2/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	user, password, _ := strings.Cut(s.login, ":")
	request.SetBasicAuth(user, password)
	request.Header.Set("Content-Type", mediaType)
	transport := &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %s", method, path, response.Status)
	}
	return text, response.Header, err
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func digestOf(text []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(text)) }

func (s store) blob(repository, mediaType string, text []byte) (descriptor, error) {
	_, _, err := s.ask(http.MethodPost, repository+"/blobs/uploads/?digest="+url.QueryEscape(digestOf(text)), "application/octet-stream", text)
	return descriptor{MediaType: mediaType, Digest: digestOf(text), Size: len(text)}, err
}

const manifestType = "application/vnd.oci.image.manifest.v1+json"

// manifest pushes what names a configuration and layers, under a tag or, without one, its digest.
func (s store) manifest(repository, tag string, config descriptor, layers ...descriptor) (descriptor, error) {
	text, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": manifestType, "config": config, "layers": layers})
	if err != nil {
		return descriptor{}, err
	}
	if tag == "" {
		tag = digestOf(text)
	}
	_, _, err = s.ask(http.MethodPut, repository+"/manifests/"+tag, manifestType, text)
	return descriptor{MediaType: manifestType, Digest: digestOf(text), Size: len(text)}, err
}

// split parts a reference to the test's registry.
func split(reference string) (repository, tag string, err error) {
	path, ok := strings.CutPrefix(strings.TrimPrefix(reference, "oci://"), registryHost+"/")
	if !ok {
		return "", "", fmt.Errorf("%s is in another registry than %s", reference, registryHost)
	}
	repository, tag, _ = strings.Cut(path, ":")
	return repository, tag, nil
}

// helm knows charts in a registry: push, show chart, template.
func helm(args []string) error {
	s, err := remote()
	if err != nil {
		return err
	}
	flags, rest, err := parsed(args, "version=")
	if err != nil {
		return err
	}
	if len(rest) < 3 {
		return errors.New("which command?")
	}
	repository, _, err := split(rest[2])
	if err != nil {
		return err
	}
	if rest[0] == "push" {
		// The name and the version of a chart make the reference.
		name, version, _ := strings.Cut(strings.TrimSuffix(filepath.Base(rest[1]), ".tgz"), "-operator-")
		text, err := os.ReadFile(rest[1])
		if err != nil {
			return err
		}
		repository += "/" + name + "-operator"
		layer, err := s.blob(repository, "application/vnd.cncf.helm.chart.content.v1.tar+gzip", text)
		if err != nil {
			return err
		}
		config, err := s.blob(repository, "application/vnd.cncf.helm.config.v1+json", []byte("{}"))
		if err != nil {
			return err
		}
		_, err = s.manifest(repository, version, config, layer)
		return err
	}
	dir, err := os.MkdirTemp(os.Getenv("HOME"), "chart-")
	if err != nil {
		return err
	}
	if err := pull(s, repository, flags["version"], dir); err != nil {
		return err
	}
	var show *exec.Cmd
	switch strings.Join(rest[:2], " ") {
	case "show chart":
		show = exec.Command("cat", filepath.Join(dir, "shell-operator", "Chart.yaml"))
	default:
		if rest[0] != "template" {
			return fmt.Errorf("no command %q is known", rest[0])
		}
		show = exec.Command(os.Getenv("CHART"), "render", "--name", rest[1], filepath.Join(dir, "shell-operator"))
	}
	show.Stdout, show.Stderr = os.Stdout, os.Stderr
	return show.Run()
}

// pull unpacks a chart.
func pull(s store, repository, version, dir string) error {
	text, _, err := s.ask(http.MethodGet, repository+"/manifests/"+version, "", nil)
	if err != nil {
		return err
	}
	var manifest struct{ Layers []descriptor }
	if err := json.Unmarshal(text, &manifest); err != nil {
		return err
	}
	if text, _, err = s.ask(http.MethodGet, repository+"/blobs/"+manifest.Layers[0].Digest, "", nil); err != nil {
		return err
	}
	unpack := exec.Command("tar", "-xzf", "-", "-C", dir)
	unpack.Stdin = bytes.NewReader(text)
	return unpack.Run()
}

// release is what GitHub knows of one, beside its files.
type release struct{ Draft, Prerelease bool }

// gh knows one release: a directory with its files, and what is known of it in another file.
func gh(args []string) error {
	if os.Getenv("GH_TOKEN") == "" {
		return errors.New("set the GH_TOKEN environment variable")
	}
	if _, err := os.Stat(".github"); err != nil {
		return errors.New("not a git repository")
	}
	flags, rest, err := parsed(args, "draft", "draft=", "prerelease", "verify-tag", "generate-notes", "json=", "jq=")
	if err != nil {
		return err
	}
	if len(rest) < 3 || rest[0] != "release" {
		return errors.New("which command?")
	}
	assets := filepath.Join(os.Getenv("RELEASES"), rest[2])
	switch rest[1] {
	case "create":
		if err := os.Mkdir(assets, 0o755); err != nil {
			return err
		}
		for _, file := range rest[3:] {
			if err := os.Link(file, filepath.Join(assets, filepath.Base(file))); err != nil {
				return err
			}
		}
		return writeRelease(assets, release{Draft: flags["draft"] == "true", Prerelease: flags["prerelease"] == "true"})
	case "edit":
		r, err := readRelease(assets)
		if err != nil {
			return err
		}
		r.Draft = flags["draft"] != "false"
		return writeRelease(assets, r)
	case "view":
		if flags["json"] != "assets" || flags["jq"] != ".assets[].name" {
			return fmt.Errorf("no answer is known for %q", args)
		}
		entries, err := os.ReadDir(assets)
		for _, entry := range entries {
			fmt.Println(entry.Name())
		}
		return err
	}
	return fmt.Errorf("no command %q is known", rest[1])
}

func readRelease(assets string) (release, error) {
	var r release
	text, err := os.ReadFile(assets + ".json")
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

func writeRelease(assets string, r release) error {
	text, err := json.Marshal(r)
	return errors.Join(err, os.WriteFile(assets+".json", text, 0o600))
}
