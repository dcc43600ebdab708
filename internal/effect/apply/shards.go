package apply

import (
	"errors"
	"fmt"
	"strings"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/shard"
)

// checkShard returns an error if the run of a divided hook has a set that belongs to another shard, or to none: two processes would prune
// each other's objects. A request may have any set, which is restored by its own shard only.
func checkShard(s shard.Shard, h *hook.Hook, patches []effect.Patch, isRequest bool, identify run.Identify) error {
	if !s.Divided() {
		return nil
	}
	for i := range patches {
		set := patches[i].Set
		if set == nil {
			continue
		}
		err := ownSet(s, h, set, identify)
		switch {
		case err == nil:
		case isRequest:
			set.Restore = false
		default:
			return fmt.Errorf("operation %d: Sync of set %q: %w", i+1, set.Name, err)
		}
	}
	return nil
}

// ownSet returns why a set does not belong to the shard.
func ownSet(s shard.Shard, h *hook.Hook, set *effect.ObjectSet, identify run.Identify) error {
	by, o := h.Settings.ShardBy, set.Owner
	switch {
	case by == shard.None && s.Runs(by):
		return nil
	case by == shard.None:
		return errors.New("the hook has no shardBy, so that its sets belong to shard 0")
	case o == nil:
		return fmt.Errorf("it has no owner, and settings.shardBy is %s: the replicas would prune each other's objects; give it an owner, "+
			"or move it to a hook without shardBy", by)
	case s.Index == shard.Waiting:
		return errors.New("this replica has no shard")
	}
	group, _, grouped := strings.Cut(o.APIVersion, "/")
	if !grouped {
		group = ""
	}
	uid, namespace := o.UID, o.Namespace
	if group == "" && o.Kind == "Namespace" {
		namespace = o.Name
	}
	if by == shard.ByObject && uid == "" && identify != nil {
		uid, _ = identify(group, o.Kind, o.Namespace, o.Name)
	}
	if by == shard.ByObject && uid == "" {
		return fmt.Errorf("the uid of its owner %s/%s is not known, and settings.shardBy is object: write owner.uid", o.Kind, o.Name)
	}
	if !s.Part(by).Has(uid, namespace) {
		return fmt.Errorf("its owner %s/%s belongs to another shard than %s: only the shard of the owner may change the set", o.Kind, o.Name, s)
	}
	return nil
}
