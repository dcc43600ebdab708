package lint

import (
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/script"
)

func TestWorkerWithoutProtocol(t *testing.T) {
	for text, want := range map[string]int{
		"#!/bin/sh\ncat \"$BINDING_CONTEXT_PATH\"\n":  1,
		"#!/usr/bin/env bash\nhook::run \"$@\"\n":     0,
		"#!/usr/bin/env python3\nhook.run()\n":        0,
		"#!/usr/bin/env perl\n$ENV{HOOK_WORKER_FD}\n": 0,
		"": 0,
	} {
		s := script.Source{Path: "h", Text: []byte(text)}
		if got := servesNoRuns(s, &hook.Hook{Settings: hook.Settings{Worker: &hook.Worker{}}}); len(got) != want {
			t.Errorf("%q: %v", text, got)
		}
		if got := servesNoRuns(s, &hook.Hook{}); len(got) != 0 {
			t.Errorf("%q without worker: %v", text, got)
		}
	}
}
