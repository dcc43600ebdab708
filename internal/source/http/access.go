package http

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/httpserver"
)

const (
	// cacheFor is how long a review of the API server is cached. A revoked token works that long.
	cacheFor = 10 * time.Second
	// reviewTimeout bounds a request to the API server, with the wait for its turn.
	reviewTimeout = 5 * time.Second
	// acceptedFor is how long an accepted token has places of its own.
	acceptedFor = time.Hour
	// reviewsInFlight bounds the requests to the API server about accepted tokens, and those about others. waitingOfAddress bounds the others
	// that wait, of one address beyond loopback: the connections of unknown clients bound all of them.
	reviewsInFlight, waitingOfAddress = 16, 4
	// maxCached bounds the memory that they can take.
	maxCached = 4096
)

// Access authenticates and authorizes clients by the cluster. It is safe for concurrent use.
type Access struct {
	client rest.Interface
	log    *slog.Logger
	// reviews has an entry for each request in flight about an accepted token, strangers for each of the others.
	reviews, strangers chan struct{}
	// users and allowed have what the API server has answered, accepted the tokens of the last hour, by hashes, so they hold no secrets.
	users, allowed, accepted *cache.LRUExpireCache
	mu                       sync.Mutex // guards what follows
	// waiting are the requests about tokens that are not accepted, by the address of the client.
	waiting map[string]int
	// failures limits the records about an API server that does not respond: any client can cause one.
	failures *rate.Limiter
}

// NewAccess returns an Access to the cluster of the client, which needs the permission to create tokenreviews and
// subjectaccessreviews.
func NewAccess(client rest.Interface, log *slog.Logger) *Access {
	return &Access{
		client: client, log: log, reviews: make(chan struct{}, reviewsInFlight), strangers: make(chan struct{}, reviewsInFlight),
		users: cache.NewLRUExpireCache(maxCached), allowed: cache.NewLRUExpireCache(maxCached), accepted: cache.NewLRUExpireCache(maxCached),
		waiting:  map[string]int{},
		failures: rate.NewLimiter(rate.Every(10*time.Second), 3),
	}
}

// remembered returns the cached value, or calls find and caches its value. Errors are not cached.
func remembered[V any](in *cache.LRUExpireCache, key [sha256.Size]byte, find func() (V, error)) (V, error) {
	if known, ok := in.Get(key); ok {
		return known.(V), nil
	}
	value, err := find()
	if err == nil {
		in.Add(key, value, cacheFor)
	}
	return value, err
}

// identify returns the user of a token that a client of an address has sent.
func (a *Access) identify(ctx context.Context, address, authorization string) (*event.User, error) {
	scheme, token, _ := strings.Cut(authorization, " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, httpserver.Refuse(http.StatusUnauthorized, "a bearer token of the cluster is required")
	}
	key := sha256.Sum256([]byte(token))
	user, err := remembered(a.users, key, func() (*event.User, error) {
		places := a.reviews
		if _, accepted := a.accepted.Get(key); !accepted {
			if !a.enter(address) {
				return nil, errBusy
			}
			defer a.leave(address)
			places = a.strangers
		}
		user, err := a.reviewToken(ctx, places, token)
		if user != nil {
			a.accepted.Add(key, true, acceptedFor)
		}
		return user, err
	})
	if err != nil {
		return nil, err
	}
	if user == nil {
		return nil, httpserver.Refuse(http.StatusUnauthorized, "the cluster does not know the token")
	}
	return user, nil
}

// enter reports whether a client without an accepted token may wait for the API server; then it leaves.
func (a *Access) enter(address string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting[address] >= waitingOfAddress {
		return false
	}
	a.waiting[address]++
	return true
}

func (a *Access) leave(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting[address]--; a.waiting[address] == 0 {
		delete(a.waiting, address)
	}
}

// addressOf returns the address of a client, of IPv6 the first half: a client can have all others with it. Each request of loopback, where
// a proxy for others may be, has an address of its own.
func addressOf(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if ip := at.Addr().Unmap(); err == nil && !ip.IsLoopback() {
		prefix, _ := ip.Prefix(map[bool]int{true: 32, false: 64}[ip.Is4()])
		return prefix.String()
	}
	return remote
}

// audience is in tokens that are of no use elsewhere: others are for the API server, and a client hands them to the operator.
const audience = "shell-operator"

// isFor reports whether a token claims to have an audience. The API server verifies it; the claim only decides what it is asked.
func isFor(token, audience string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Audience json.RawMessage `json:"aud"`
	}
	if err != nil || json.Unmarshal(text, &claims) != nil {
		return false
	}
	var one string
	var several []string
	if json.Unmarshal(claims.Audience, &one) == nil {
		return one == audience
	}
	return json.Unmarshal(claims.Audience, &several) == nil && slices.Contains(several, audience)
}

// reviewToken returns nil for an unknown token.
func (a *Access) reviewToken(ctx context.Context, places chan struct{}, token string) (*event.User, error) {
	var review struct {
		Status struct {
			Authenticated bool
			Audiences     []string
			User          struct {
				Username, UID string
				Groups        []string
				Extra         map[string][]string
			}
		}
	}
	spec, own := map[string]any{"token": token}, isFor(token, audience)
	if own {
		spec["audiences"] = []string{audience}
	}
	err := a.review(ctx, places, "authentication.k8s.io", "TokenReview", spec, &review)
	// An API server without audiences returns none: then the token is for itself.
	known := review.Status.Authenticated && (!own || slices.Contains(review.Status.Audiences, audience))
	if u := review.Status.User; err == nil && known && u.Username != "" {
		return &event.User{Name: u.Username, UID: u.UID, Groups: u.Groups, Extra: u.Extra}, nil
	}
	return nil, err
}

// authorize returns an error unless the user is allowed to send the request. Without an Access only the binding restricts users.
func (a *Access) authorize(ctx context.Context, u *event.User, b *hook.HTTP, path string) error {
	allowed := false
	if b.Allow != nil {
		allowed = slices.Contains(b.Allow.Users, u.Name) ||
			slices.ContainsFunc(u.Groups, func(group string) bool { return slices.Contains(b.Allow.Groups, group) })
	} else if a == nil {
		allowed = true
	} else {
		var err error
		if allowed, err = a.reviewAccess(ctx, u, strings.ToLower(b.Method), hook.AccessPath(path)); err != nil {
			return err
		}
	}
	if !allowed {
		return httpserver.Refuse(http.StatusForbidden, "user %q is not allowed to do this", u.Name)
	}
	return nil
}

func (a *Access) reviewAccess(ctx context.Context, u *event.User, verb, path string) (bool, error) {
	spec := map[string]any{
		"user": u.Name, "uid": u.UID, "groups": u.Groups, "extra": u.Extra,
		"nonResourceAttributes": map[string]string{"path": path, "verb": verb},
	}
	key, err := json.Marshal(spec) // keys of maps are sorted
	if err != nil {
		return false, err
	}
	return remembered(a.allowed, sha256.Sum256(key), func() (bool, error) {
		var review struct {
			Status struct{ Allowed, Denied bool }
		}
		err := a.review(ctx, a.reviews, "authorization.k8s.io", "SubjectAccessReview", spec, &review)
		return review.Status.Allowed && !review.Status.Denied, err
	})
}

var errBusy = httpserver.Refuse(http.StatusServiceUnavailable, "the cluster does not respond: try again later")

// review creates a review object when there is a place. An error is a *httpserver.Refusal.
func (a *Access) review(ctx context.Context, places chan struct{}, group, kind string, spec, into any) error {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-ctx.Done():
		return errBusy
	}
	text, err := json.Marshal(map[string]any{"apiVersion": group + "/v1", "kind": kind, "spec": spec})
	if err != nil {
		return err
	}
	answer, err := a.client.Post().AbsPath("apis", group, "v1", strings.ToLower(kind)+"s").
		SetHeader("Content-Type", "application/json").Body(text).MaxRetries(0).Do(ctx).Raw()
	if err == nil {
		err = json.Unmarshal(answer, into)
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, context.Canceled) && a.failures.Allow() {
		a.log.Error("Cannot ask the API server about a client of HTTP hooks, it gets 503: may the operator create "+strings.ToLower(kind)+"s?",
			"error", fmt.Sprint(err))
	}
	return errBusy
}
