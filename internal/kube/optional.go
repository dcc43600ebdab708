package kube

import "context"

type optional struct{}

// Optional marks requests whose rejection has no consequence, so that no Role needs to allow them.
func Optional(ctx context.Context) context.Context { return context.WithValue(ctx, optional{}, true) }

// IsOptional reports whether a context is one of Optional.
func IsOptional(ctx context.Context) bool { return ctx.Value(optional{}) != nil }
