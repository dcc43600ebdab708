package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/shell-operator/shell-operator/internal/test"
)

// bareProgram is this test binary as a program that does the one thing that bounds a scenario.
type bareProgram struct {
	cmd   *exec.Cmd
	lines *bufio.Reader
}

// startBare starts it and waits until it watches.
func (b *bench) startBare(role string, args ...string) *bareProgram {
	b.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "BENCH_BARE="+role, "PATH="+test.Tools(b)+":"+os.Getenv("PATH")) // as the operator has it
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	p := &bareProgram{cmd, bufio.NewReader(out)}
	b.Cleanup(p.end)
	if line := p.line(b); line != "watching" {
		b.Fatalf("the bare program said %q", line)
	}
	return p
}

func (p *bareProgram) line(b *bench) string {
	b.Helper()
	line, _, err := p.lines.ReadLine()
	if err != nil {
		b.Fatalf("the bare program has ended: %v", err)
	}
	return string(line)
}

func (p *bareProgram) end() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// bare is what the program does.
func bare(role string) {
	does := map[string]func(kubeconfig, namespace, script string) error{"latency": bareLatency, "storm": bareStorm}
	if err := does[role](os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, role, err)
		os.Exit(1)
	}
}

// bareLatency starts a script for each ConfigMap that is added.
func bareLatency(kubeconfig, namespace, script string) error {
	return bareWatch(kubeconfig, namespace, func(ev *bareEvent) error {
		if ev.Type != "ADDED" || ev.name() == "kube-root-ca.crt" {
			return nil
		}
		cmd := exec.Command(script)
		cmd.Stdout = os.Stdout // the script's line needs no way through this program
		return cmd.Run()
	})
}

// bareStorm starts a script for all ConfigMaps that have been modified while it ran last.
func bareStorm(kubeconfig, namespace, script string) error {
	var mu sync.Mutex
	var waiting []json.RawMessage
	more := make(chan struct{}, 1)
	failed := make(chan error, 2)
	go func() {
		failed <- bareWatch(kubeconfig, namespace, func(ev *bareEvent) error {
			if ev.Type != "MODIFIED" {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			waiting = append(waiting, ev.Object)
			select {
			case more <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	go func() {
		for range more {
			mu.Lock()
			objects := waiting
			waiting = nil
			mu.Unlock()
			if len(objects) == 0 {
				continue
			}
			if err := runWithContexts(script, objects); err != nil {
				failed <- err
				return
			}
		}
	}()
	return <-failed
}

// runWithContexts starts a script with a file of contexts.
func runWithContexts(script string, objects []json.RawMessage) error {
	file, err := os.Create(filepath.Join(filepath.Dir(script), "contexts.json"))
	if err != nil {
		return err
	}
	out := bufio.NewWriter(file)
	for i, object := range objects {
		fmt.Fprintf(out, `%c{"binding":"kubernetes","type":"Event","watchEvent":"Modified","object":%s}`, "[,"[min(i, 1)], object)
	}
	fmt.Fprintln(out, "]")
	if err := out.Flush(); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	cmd := exec.Command(script)
	cmd.Env = append(os.Environ(), "BINDING_CONTEXT_PATH="+file.Name())
	cmd.Stdout = os.Stdout
	if err := cmd.Run(); err != nil {
		return err
	}
	return os.Remove(file.Name())
}

type bareEvent struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

func (ev *bareEvent) name() string {
	var object struct{ Metadata struct{ Name string } }
	_ = json.Unmarshal(ev.Object, &object)
	return object.Metadata.Name
}

// bareWatch calls do for each change of a ConfigMap.
func bareWatch(kubeconfig, namespace string, do func(*bareEvent) error) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, host, err := bareHTTP(config)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, host+"/api/v1/namespaces/"+namespace+"/configmaps?watch=true",
		nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	fmt.Println("watching")
	dec := json.NewDecoder(res.Body)
	for {
		var ev bareEvent
		if err := dec.Decode(&ev); err != nil {
			return err
		}
		if err := do(&ev); err != nil {
			return err
		}
	}
}
