package cert

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// Replicas with the same private key agree on tokens. After a rotation the last key's tokens stay valid, and older ones do not.
func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := newPolicy([]string{"a.example.com"})
		if err != nil {
			t.Fatal(err)
		}
		shared := &memory{}
		replica := func() *keeper {
			k, err := newKeeper(t.Context(), shared, p, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		one, two := replica(), replica()
		first := one.Token("/a")
		if len(first) != 64 || first != two.Token("/a") || first == one.Token("/b") {
			t.Errorf("tokens of two replicas: %s %s, of another path: %s", first, two.Token("/a"), one.Token("/b"))
		}
		if !one.Valid("/a", first) || one.Valid("/b", first) || one.Valid("/a", "") {
			t.Error("a token is valid for its path only")
		}
		for round := range 2 {
			changed, was := one.Changed(), one.Token("/a")
			time.Sleep(61 * 24 * time.Hour)
			if _, err := one.look(t.Context()); err != nil {
				t.Fatal(err)
			}
			select {
			case <-changed:
			default:
				t.Error("the change was not reported, but the registration has to follow")
			}
			if now := one.Token("/a"); now == was || !one.Valid("/a", now) || !one.Valid("/a", was) {
				t.Errorf("round %d: after the rotation the token is %s, was %s", round, now, was)
			}
		}
		if one.Valid("/a", first) {
			t.Error("the token before the last one is valid")
		}
	})
}

// With files, all processes with the same key have the same tokens.
func TestTokensOfFiles(t *testing.T) {
	dir := t.TempDir()
	newPair(t).write(t, dir)
	var tokens []string
	for range 2 {
		source, err := Files(filesIn(dir))
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, source.Token("/a"))
	}
	if tokens[0] != tokens[1] {
		t.Errorf("two processes disagree: %s", tokens)
	}
}
