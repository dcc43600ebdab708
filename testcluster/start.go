package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// startPatience is how long the control plane may take to become ready on a busy machine.
const startPatience = 2 * time.Minute

// start runs a control plane until a signal ends it.
func start(args []string, stdout, stderr io.Writer) error {
	dir, rest, err := parseDir(args)
	if err != nil {
		return err
	}
	remove, gates := false, ""
	for _, arg := range rest {
		switch {
		case arg == "--remove":
			remove = true
		case strings.HasPrefix(arg, gatesFlag):
			gates = arg
		default:
			return usageError(fmt.Sprintf("unexpected argument %q", arg))
		}
	}
	if remove {
		defer os.RemoveAll(dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f := folder(dir)
	lock, err := f.lock()
	if err != nil {
		return err
	}
	defer lock.Close()

	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()

	p, ca, err := f.prepare()
	if err != nil {
		return err
	}
	s := &supervisor{
		folder:     f,
		components: components(f, p, gates),
		client:     newClient(ca),
		ended:      make(chan *process),
		restarts:   make(chan restartRequest),
		stderr:     stderr,
	}
	defer s.stop()
	if err := s.start(ctx, p); err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop while starting: that is no failure
		}
		return err
	}

	// Requests are served from here on, not earlier: until now the cluster was not ready.
	serving, err := s.listen()
	if err != nil {
		return err
	}
	defer serving()
	fmt.Fprintln(stdout, "ready")
	s.run(ctx)
	return nil
}

// supervisor owns the components. All its methods but the HTTP handler run on one goroutine.
type supervisor struct {
	folder     folder
	components []*component
	client     *http.Client
	ended      chan *process
	restarts   chan restartRequest
	stderr     io.Writer
}

// restartRequest asks for one component; the outcome goes to done, which has room for it.
type restartRequest struct {
	name string
	done chan error
}

// start brings up one component after the other, each when the one that it needs is healthy.
func (s *supervisor) start(ctx context.Context, p ports) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience, fmt.Errorf("gave up after %v", startPatience))
	defer cancel()
	for _, c := range s.components {
		if err := s.startComponent(ctx, c); err != nil {
			return err
		}
	}
	return s.waitUsable(ctx, p)
}

// waitUsable returns when Pods can be created, which needs what the controller manager makes in every namespace.
func (s *supervisor) waitUsable(ctx context.Context, p ports) error {
	token, err := os.ReadFile(s.folder.path("admin.token"))
	if err != nil {
		return err
	}
	api := "https://" + loopback(p.APIServer) + "/api/v1/namespaces/default/"
	for _, object := range []string{"serviceaccounts/default", "configmaps/kube-root-ca.crt"} {
		for !answers(ctx, s.client, api+object, string(token)) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("the cluster has no %s in namespace default: %w", object, context.Cause(ctx))
			case process := <-s.ended:
				return s.explain(s.bury(process))
			case <-time.After(pollInterval):
			}
		}
	}
	return nil
}

func (s *supervisor) startComponent(ctx context.Context, c *component) error {
	if err := c.start(s.folder, func(p *process) { s.ended <- p }); err != nil {
		return err
	}
	if err := c.healthy(ctx, s.client); err != nil {
		if errors.Is(err, errEnded) {
			return s.explain(err)
		}
		return err
	}
	return nil
}

// explain adds the last words of the component that died.
func (s *supervisor) explain(err error) error {
	for _, c := range s.components {
		if c.process == nil {
			continue
		}
		select {
		case <-c.process.done:
			return fmt.Errorf("%w\n%s says (%s):\n%s", err, c.name, s.folder.path(c.name+".log"), s.tail(c.name))
		default:
		}
	}
	return err
}

func (s *supervisor) tail(name string) []byte {
	data, err := os.ReadFile(s.folder.path(name + ".log"))
	if err != nil {
		return nil
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-5):], []byte("\n"))
}
