// Package worker runs hooks in processes that are started once and serve runs one after the other.
//
// Callers may rely on this:
//   - A Pool is an executor: a run ends as it would as a process of its own, with the same errors for its exit status and its time limit.
//   - Runs whose Invocation has no Worker go to the Executor below.
//   - Each hook has workers of its own, at most as many as runs of it are in progress, and those for clients apart. A worker serves one run
//     at a time.
//   - Workers that run from files which Keep does not name end as soon as they serve no run.
//   - No run is sent twice. One that has not been sent, because its worker had ended, goes to another worker.
//   - Close returns when all workers have ended.
//
// What a worker is, and how it is ended, is in process.Resident; which one serves a run, in the type group, which has neither processes nor
// locks.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/run/process"
)

// Meter measures workers. Its methods must not block.
type Meter interface {
	// Workers sets how many workers of a hook there are.
	Workers(hook string, n int)
	// Started counts a start, and how long it took until the worker was ready; 0 if it did not get there.
	Started(hook string, took time.Duration)
}

// Options of a Pool. Executor and Log are required.
type Options struct {
	Executor *process.Executor
	// ReadyTimeout limits the time until a worker is ready.
	ReadyTimeout time.Duration
	// Check returns an error if a run may not start any more. It is called before each start and each message. Nil allows all.
	Check func(ctx context.Context) error
	// ProxyJSON logs the JSON objects that hooks print as records of their own.
	ProxyJSON bool
	// Prepare makes what a hook needs besides the files of its runs, before a worker is started that no run waits for; nil makes nothing.
	Prepare func(in process.Invocation) error
	Meter   Meter
	Log     *slog.Logger
}

// Pool has the workers of all hooks.
type Pool struct {
	opts Options
	// wake makes Run look at the groups.
	wake chan struct{}
	// running are the goroutines of workers.
	running sync.WaitGroup

	mu     sync.Mutex // guards what follows, and all groups
	groups map[key]*crew
	// numbers counts the workers of each hook.
	numbers map[string]int
	// ended: no worker stays idle.
	ended bool
	// kept are the groups that Keep has named; nil before the first time. Newest is the largest number of files that it has named.
	kept   map[key]bool
	newest int
}

// key is what workers have in common that can replace each other.
type key struct {
	hook   string
	files  int
	client bool
}

func keyOf(in process.Invocation) key {
	return key{in.Hook, in.Worker.Files, in.Worker.Client}
}

// crew is a group with its processes.
type crew struct {
	group
	key   key
	start process.Invocation
}

// grant is a worker for a run, or why there is none.
type grant struct {
	*member
	err error
}

// New returns a Pool without workers.
func New(o Options) *Pool {
	if o.Check == nil {
		o.Check = func(context.Context) error { return nil }
	}
	if o.Meter == nil {
		o.Meter = noMeter{}
	}
	return &Pool{opts: o, wake: make(chan struct{}, 1), groups: map[key]*crew{}, numbers: map[string]int{}}
}

type noMeter struct{}

func (noMeter) Workers(string, int)           {}
func (noMeter) Started(string, time.Duration) {}

// Execute runs a hook: as a process, or by a worker.
func (p *Pool) Execute(ctx context.Context, in process.Invocation) (process.Result, error) {
	if in.Worker == nil {
		return p.opts.Executor.Execute(ctx, in)
	}
	began := time.Now()
	for {
		if err := p.opts.Check(ctx); err != nil {
			return process.Result{}, err
		}
		c, m, err := p.take(ctx, in)
		if err != nil {
			return process.Result{}, err
		}
		waited := time.Since(began)
		if err := p.opts.Check(ctx); err != nil {
			p.release(c, m, c.free)
			return process.Result{}, err
		}
		result, err := m.process.Serve(ctx, in)
		if errors.Is(err, process.ErrWorkerGone) {
			p.mu.Lock()
			m.state = leaving
			p.mu.Unlock()
			continue
		}
		result.Served = process.Served{Worker: m.number, Run: m.runs + 1, Started: waited}
		p.release(c, m, c.served)
		return result, err
	}
}

// take returns a worker for a run.
func (p *Pool) take(ctx context.Context, in process.Invocation) (*crew, *member, error) {
	w := &waiter{make(chan grant, 1)}
	p.mu.Lock()
	c := p.crewOf(in)
	p.do(c, c.want(time.Now(), w))
	p.mu.Unlock()
	select {
	case g := <-w.granted:
		return c, g.member, g.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	c.left(w)
	p.mu.Unlock()
	select {
	case g := <-w.granted: // both were there
		if g.err == nil {
			p.release(c, g.member, c.free)
		}
	default:
	}
	return c, nil, fmt.Errorf("%s FAILED: not started: %w", in.Hook, context.Cause(ctx))
}

// release notes that a worker can serve other runs.
func (p *Pool) release(c *crew, m *member, how func(time.Time, *member) []action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.process.Alive() {
		p.do(c, how(time.Now(), m))
	}
}

// crewOf returns the group of an invocation. The caller holds mu.
func (p *Pool) crewOf(in process.Invocation) *crew {
	k := keyOf(in)
	c := p.groups[k]
	if c == nil {
		c = &crew{key: k, start: in}
		c.start.Vars, c.start.Stdout, c.start.Stderr, c.start.Timeout = nil, nil, nil, 0
		c.limits = limits{in.Worker.MaxAge, in.Worker.IdleTimeout, in.Worker.MaxRuns}
		c.retired = p.ended || p.kept != nil && !p.kept[k] && k.files <= p.newest // otherwise Keep is about to name it
		p.groups[k] = c
	}
	return c
}

// Keep names all hooks of which workers stay, by what starts them: those for clients are started now.
func (p *Pool) Keep(all []process.Invocation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = map[key]bool{}
	for _, in := range all {
		p.kept[keyOf(in)] = true
		p.newest = max(p.newest, in.Worker.Files)
	}
	p.nudge()
	if p.ended {
		return
	}
	for _, in := range all {
		if c := p.groups[keyOf(in)]; c != nil {
			c.retired = false // a run had the files before they were named
		}
		if in.Worker.Client {
			p.crewOf(in).always = true
		}
	}
	for k, c := range p.groups {
		if !p.kept[k] {
			p.do(c, c.retire())
		}
	}
}

// nudge makes Run look at the groups.
func (p *Pool) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run ends workers that have reached a limit, and keeps those that are always there, until ctx ends. Then workers end after the run that
// they serve.
func (p *Pool) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			p.end()
			return
		case <-timer.C:
		case <-p.wake:
		}
		if due := p.tick(time.Now()); !due.IsZero() {
			timer.Reset(max(0, time.Until(due)))
		}
	}
}

// tick does what is due, and returns when that is the case again.
func (p *Pool) tick(now time.Time) (due time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.groups {
		p.carryOut(c, c.tick(now)) // do would make Run look again, and again
		if next := c.next(); !next.IsZero() && (due.IsZero() || next.Before(due)) {
			due = next
		}
	}
	return due
}

// end lets no worker stay idle.
func (p *Pool) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for _, c := range p.groups {
		p.do(c, c.retire())
	}
}

// Close ends all workers, and waits for that. No run may be in progress.
func (p *Pool) Close() {
	p.end()
	p.running.Wait()
}

// do carries out what a group has decided, and makes Run look when the next step of the group is due. The caller holds mu.
func (p *Pool) do(c *crew, todo []action) {
	p.carryOut(c, todo)
	p.nudge()
}

func (p *Pool) carryOut(c *crew, todo []action) {
	for _, a := range todo {
		switch a.kind {
		case start:
			p.numbers[c.key.hook]++
			a.member.number = p.numbers[c.key.hook]
			p.running.Go(func() { p.run(c, a.member) })
		case give:
			a.waiter.granted <- grant{member: a.member}
		case fail:
			if a.err == nil {
				a.err = fmt.Errorf("%s FAILED: not started: the operator ends", c.key.hook)
			}
			a.waiter.granted <- grant{err: a.err}
		case end:
			if a.member.process != nil { // otherwise run does it
				a.member.process.Leave()
			}
		}
	}
	if c.retired && len(c.members)+len(c.waiting) == 0 && p.groups[c.key] == c {
		delete(p.groups, c.key)
	}
}

// maxBetween bounds what is logged of a worker before its first run and between two runs.
const maxBetween = 1 << 20

// run starts the process of a member, and follows it until its end.
func (p *Pool) run(c *crew, m *member) {
	log := p.opts.Log.With("hook", c.key.hook, "worker", m.number)
	if c.start.Worker.Take != nil {
		defer c.start.Worker.Take()()
	}
	stdout, stderr := process.NewLineLogger(log, "stdout", p.opts.ProxyJSON), process.NewLineLogger(log, "stderr", p.opts.ProxyJSON)
	defer stdout.Close()
	defer stderr.Close()
	o := process.ResidentOptions{Invocation: c.start, ReadyTimeout: p.opts.ReadyTimeout, Ended: func(err error) { p.gone(c, m, err, log) }}
	o.Stdout, o.Stderr, o.Output = stdout.Line, stderr.Line, maxBetween
	o.Dropped = func() {
		log.Warn("The worker has printed more than is logged between two runs, the rest is dropped", "limit", maxBetween)
	}
	began := time.Now()
	o.Ready = func() {
		took := time.Since(began)
		log.Info("A worker of the hook is ready", "seconds", took.Seconds())
		p.opts.Meter.Started(c.key.hook, took)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.do(c, c.ready(time.Now(), m))
	}
	w, err := p.launch(c, o)
	if err != nil {
		p.opts.Meter.Started(c.key.hook, 0)
		p.gone(c, m, err, log)
		return
	}
	p.mu.Lock()
	m.process = w
	if m.state == leaving {
		w.Leave()
	}
	p.measure(c.key.hook)
	p.mu.Unlock()
	w.Run()
}

func (p *Pool) launch(c *crew, o process.ResidentOptions) (*process.Resident, error) {
	if p.opts.Prepare != nil {
		if err := p.opts.Prepare(c.start); err != nil {
			return nil, fmt.Errorf("%s FAILED: %w", c.key.hook, err)
		}
	}
	return p.opts.Executor.StartResident(o)
}

// gone is called when a worker has ended, or could not be started. The error is nil if it was to end.
func (p *Pool) gone(c *crew, m *member, err error, log *slog.Logger) {
	var broken *process.WorkerError
	between := errors.As(err, &broken) && broken.BetweenRuns // perhaps before served is called
	p.mu.Lock()
	before := m.state
	todo := c.ended(time.Now(), m, err)
	failsRun := slices.ContainsFunc(todo, func(a action) bool { return a.kind == fail })
	p.do(c, todo)
	p.measure(c.key.hook)
	p.mu.Unlock()
	if err != nil && (before == idle || before != starting && between || before == starting && !failsRun) { // otherwise a run reports it
		log.Warn("A worker of the hook has ended, another one is started when it is needed", "error", err.Error())
	}
}

// measure counts the workers of a hook. The caller holds mu.
func (p *Pool) measure(hook string) {
	n := 0
	for k, c := range p.groups {
		for _, m := range c.members {
			if k.hook == hook && m.process != nil {
				n++
			}
		}
	}
	p.opts.Meter.Workers(hook, n)
}
