package tenant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	authentication "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

const (
	// defaultLifetime is what is asked for. The API server may grant another one.
	defaultLifetime = time.Hour
	// minRetry doubles up to maxRetry while a token cannot be requested.
	minRetry, maxRetry = time.Second, 30 * time.Second
	// requestTimeout ends the request of a token, and that of a check.
	requestTimeout = 10 * time.Second
	// checkInterval is the least time between two checks. The API server remembers for as long that it has accepted a token.
	checkInterval = 10 * time.Second
)

// account is a ServiceAccount with its current token.
type account struct {
	name   hook.ServiceAccount
	file   string
	client rest.Interface
	log    *slog.Logger
	// operator requests the tokens, for so long.
	operator rest.Interface
	lifetime time.Duration
	clock    clock.WithDelayedExecution
	changed  func()
	// clean removes the files of an account that ends.
	clean func(*account)
	// tried is closed when the first request of a token has been answered, or never will.
	tried chan struct{}
	// renew has a token when the API server has rejected the current one. Its capacity is 1.
	renew chan struct{}
	// doubts has a token when a run has failed, perhaps because of its token. Its capacity is 1.
	doubts chan struct{}
	// ended is closed when no tenant has the account any more.
	ended chan struct{}
	end   func()

	// writing is held while the file is written, and locked before mu.
	writing sync.Mutex

	mu sync.Mutex
	// token is valid until expires; empty if the API server has rejected it.
	token   string
	expires time.Time
	// problem is why there is no newer one; nil after a success.
	problem error
}

func newAccount(t *Tenants, name hook.ServiceAccount) *account {
	a := &account{
		name: name, file: filepath.Join(t.opts.Dir, name.Namespace+"_"+name.Name, "token"), log: t.opts.Log.With("account", name.String()),
		operator: t.client, lifetime: t.opts.Lifetime, clock: t.opts.Clock, changed: t.opts.Changed, clean: t.clean,
		tried: make(chan struct{}), renew: make(chan struct{}, 1), doubts: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	a.end = sync.OnceFunc(func() { close(a.ended) })
	a.client = a.connect(t.opts.Config, t.opts.Complete)
	return a
}

// connect returns a client of the account.
func (a *account) connect(operator *rest.Config, complete func(*rest.Config) *rest.Config) rest.Interface {
	config := rest.AnonymousClientConfig(operator)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return bearer{a, next} })
	client, err := kube.NewClient(complete(config))
	if err != nil { // the connection of the operator has been made from the same values
		panic(fmt.Sprintf("cannot make the client of a tenant: %v", err))
	}
	return client
}

// NoTokenError is the error of what needs a token that is not there. It does not wrap Err, which may be an answer of the API server: that
// the account is missing, or tokens are forbidden, is no answer to a request that was not sent.
type NoTokenError struct {
	Account hook.ServiceAccount
	Err     error
}

func (e *NoTokenError) Error() string {
	return fmt.Sprintf("there is no token of the account %s: %v", e.Account, e.Err)
}

var (
	errNotYet  = errors.New("none has been requested yet")
	errEnded   = errors.New("no tenant has the account any more")
	errExpired = errors.New("it has expired")
)

// current returns the token, or why there is none.
func (a *account) current() (string, *NoTokenError) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.ended:
		return "", &NoTokenError{a.name, errEnded}
	default:
	}
	if a.token != "" && a.clock.Now().Before(a.expires) {
		return a.token, nil
	}
	why := a.problem
	switch {
	case why != nil:
	case a.token != "":
		why = errExpired
	default:
		why = errNotYet
	}
	return "", &NoTokenError{a.name, why}
}

// run renews the token until ctx or the account ends.
func (a *account) run(ctx context.Context) {
	tried := sync.OnceFunc(func() { close(a.tried) })
	defer tried()
	defer a.clean(a)
	var expiry clock.Timer
	for retry := minRetry; ; {
		next, err := a.request(ctx)
		if expiry != nil {
			expiry.Stop()
		}
		if err == nil {
			retry = minRetry
		} else {
			next = retry
			retry = min(2*retry, maxRetry)
			if left := a.left(); left > 0 { // its tenants begin to wait then
				expiry = a.clock.AfterFunc(left, a.changed)
			}
		}
		tried()
		least := minRetry // an API server may reject each token
		if err != nil {
			least = next
		}
		if !a.wait(ctx, least, next) {
			if expiry != nil {
				expiry.Stop()
			}
			return
		}
	}
}

// wait returns when most is over, or least and the token has been rejected; false at the end of the account.
func (a *account) wait(ctx context.Context, least, most time.Duration) bool {
	soonest, latest := a.clock.NewTimer(least), a.clock.NewTimer(most)
	defer soonest.Stop()
	defer latest.Stop()
	var renew <-chan struct{}
	var checked time.Time
	for {
		select {
		case <-latest.C():
			return true
		case <-soonest.C():
			renew = a.renew
		case <-renew:
			return true
		case <-a.doubts:
			if now := a.clock.Now(); now.Sub(checked) >= checkInterval {
				checked = now
				a.check(ctx)
			}
		case <-a.ended:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// doubt has the token checked.
func (a *account) doubt() {
	kube.Wake(a.doubts)
}

// check sends the token, so that one that the API server rejects is replaced: that of an account that was deleted.
func (a *account) check(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := kube.Send(ctx, a.client.Post().AbsPath("/apis/authentication.k8s.io/v1/selfsubjectreviews").
		SetHeader("Content-Type", "application/json").
		Body([]byte(`{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}`)))
	if err != nil {
		a.log.Debug("The token of the account was checked", "error", err.Error())
	}
}

// left is how long the token is valid.
func (a *account) left() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token == "" {
		return 0
	}
	return a.expires.Sub(a.clock.Now())
}

// request replaces the token, and returns after which time it has to be renewed.
func (a *account) request(ctx context.Context) (renewal time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	began := a.clock.Now()
	token, valid, err := a.ask(ctx)
	a.writing.Lock()
	if err == nil {
		if err = write(a.file, []byte(token)); err != nil {
			err = fmt.Errorf("cannot write its file: %w: is the directory of --tmp-dir full or not writable?", err)
		}
	}
	a.mu.Lock()
	before := a.problem
	was := a.token != "" && a.clock.Now().Before(a.expires)
	if a.problem = err; err == nil {
		a.token, a.expires = token, began.Add(valid)
	}
	a.mu.Unlock()
	a.writing.Unlock()
	switch {
	case err == nil && before != nil:
		a.log.Info("The token of the account is renewed again")
	case err != nil && ctx.Err() == nil && (before == nil || before.Error() != err.Error()):
		a.log.Error("Cannot get a token of the account. Will retry after delay.", "error", err.Error(), "valid", was)
	}
	if err == nil && !was {
		a.changed()
	}
	return valid * 4 / 5, err
}

// restore writes the file again if it is missing: a program that cleans the temporary directory may have removed it.
func (a *account) restore() error {
	if _, err := os.Stat(a.file); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	a.writing.Lock()
	defer a.writing.Unlock()
	token, none := a.current()
	if none != nil { // there may never have been a file
		return nil
	}
	return write(a.file, []byte(token))
}

// ask requests a token.
func (a *account) ask(ctx context.Context) (token string, valid time.Duration, err error) {
	seconds := int64(a.lifetime / time.Second)
	began := a.clock.Now()
	request := a.operator.Post().AbsPath("/api/v1/namespaces", a.name.Namespace, "serviceaccounts", a.name.Name, "token")
	text, err := kube.SendJSON(ctx, request, authentication.TokenRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"},
		Spec:     authentication.TokenRequestSpec{ExpirationSeconds: &seconds},
	})
	if kube.IsPermissionMissing(err) {
		return "", 0, fmt.Errorf("%w: %s", err, kube.Grant(a.name.Namespace, kube.Rule{
			Resource: "serviceaccounts/token", Names: []string{a.name.Name}, Verbs: []string{"create"}}))
	}
	if err != nil {
		return "", 0, err
	}
	var answer authentication.TokenRequest
	if err := json.Unmarshal(text, &answer); err != nil || answer.Status.Token == "" {
		return "", 0, errors.New("the answer of the API server has no token")
	}
	// The seconds do not depend on the clock of the API server.
	valid = answer.Status.ExpirationTimestamp.Sub(began)
	if s := answer.Spec.ExpirationSeconds; s != nil && *s > 0 {
		valid = time.Duration(*s) * time.Second
	}
	if valid <= 0 {
		return "", 0, errors.New("the API server has granted a token that has expired")
	}
	return answer.Status.Token, valid, nil
}

// reject drops a token that the API server does not accept, and requests another one.
func (a *account) reject(token string) {
	a.mu.Lock()
	rejected := a.token == token
	if rejected {
		a.token = ""
	}
	a.mu.Unlock()
	if !rejected {
		return
	}
	a.changed()
	kube.Wake(a.renew)
}

func (a *account) status(of *hook.Tenant) Status {
	_, err := a.current()
	s := Status{Tenant: of, Ready: err == nil}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.problem != nil {
		s.Problem, s.Missing = a.problem.Error(), apierrors.IsNotFound(a.problem)
	} else if err != nil {
		s.Problem = err.Err.Error()
	}
	return s
}

// bearer sends requests with the token of an account. Those before its first token wait for it.
type bearer struct {
	account *account
	next    http.RoundTripper
}

// WrappedRoundTripper returns the transport below.
func (b bearer) WrappedRoundTripper() http.RoundTripper { return b.next }

func (b bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	select {
	case <-b.account.tried:
	case <-b.account.ended:
	case <-req.Context().Done():
	}
	token, none := b.account.current()
	if none != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, none
	}
	sent := req.Clone(req.Context())
	sent.Header.Set("Authorization", "Bearer "+token)
	answer, err := b.next.RoundTrip(sent)
	if err == nil && answer.StatusCode == http.StatusUnauthorized {
		b.account.reject(token)
	}
	return answer, err
}
