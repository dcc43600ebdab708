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
	"slices"
	"strings"
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
	// These bound the requests to the API server that unauthenticated clients can cause.
	reviewsInFlight, reviewsWaiting = 16, 64
	// maxCached bounds the memory that they can take.
	maxCached = 4096
)

// Access authenticates and authorizes clients by the cluster. It is safe for concurrent use.
type Access struct {
	client rest.Interface
	log    *slog.Logger
	// reviews has a token for each request in flight, waiting one for each of these and of those that wait.
	reviews, waiting chan struct{}
	// users and allowed have what the API server has answered, by hashes, so they hold no secrets.
	users, allowed *cache.LRUExpireCache
	// failures limits the records about an API server that does not respond: any client can cause one.
	failures *rate.Limiter
}

// NewAccess returns an Access to the cluster of the client, which needs the permission to create tokenreviews and
// subjectaccessreviews.
func NewAccess(client rest.Interface, log *slog.Logger) *Access {
	return &Access{
		client: client, log: log, reviews: make(chan struct{}, reviewsInFlight), waiting: make(chan struct{}, reviewsInFlight+reviewsWaiting),
		users: cache.NewLRUExpireCache(maxCached), allowed: cache.NewLRUExpireCache(maxCached),
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

// identify returns the user of a token.
func (a *Access) identify(ctx context.Context, authorization string) (*event.User, error) {
	scheme, token, _ := strings.Cut(authorization, " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, httpserver.Refuse(http.StatusUnauthorized, "a bearer token of the cluster is required")
	}
	user, err := remembered(a.users, sha256.Sum256([]byte(token)), func() (*event.User, error) { return a.reviewToken(ctx, token) })
	if err != nil {
		return nil, err
	}
	if user == nil {
		return nil, httpserver.Refuse(http.StatusUnauthorized, "the cluster does not know the token")
	}
	return user, nil
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
func (a *Access) reviewToken(ctx context.Context, token string) (*event.User, error) {
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
	err := a.review(ctx, "authentication.k8s.io", "TokenReview", spec, &review)
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
		err := a.review(ctx, "authorization.k8s.io", "SubjectAccessReview", spec, &review)
		return review.Status.Allowed && !review.Status.Denied, err
	})
}

// review creates a review object. An error is a *httpserver.Refusal.
func (a *Access) review(ctx context.Context, group, kind string, spec, into any) error {
	busy := httpserver.Refuse(http.StatusServiceUnavailable, "the cluster does not respond: try again later")
	select {
	case a.waiting <- struct{}{}:
		defer func() { <-a.waiting }()
	default:
		return busy
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	select {
	case a.reviews <- struct{}{}:
		defer func() { <-a.reviews }()
	case <-ctx.Done():
		return busy
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
	return busy
}
