package cert

import (
	"slices"
	"time"
)

// policy has lifetimes and names.
type policy struct {
	// names must all be in the serving certificate.
	names []string
	// lifetime is that of serving certificates, authorityLifetime that of CAs.
	lifetime, authorityLifetime time.Duration
	// overlap is the time between adding a CA to the bundle and its first signature.
	overlap time.Duration
}

// step is one change to a state.
type step string

const (
	nothing step = ""
	// addAuthority adds a CA to the bundle; it signs later.
	addAuthority step = "add a CA"
	// issue replaces the serving certificate.
	issue step = "issue a certificate"
	// dropAuthority removes a CA from the bundle.
	dropAuthority step = "drop a CA"
)

// decision is the next step of a state.
type decision struct {
	do step
	// authority is the index of the CA that signs, or that is dropped.
	authority int
	// why is for the log.
	why string
	// again is when the next step may be due. It is only set for nothing.
	again time.Time
}

// next decides the next step of a state, and is called after each step until nothing is due. A CA was added at the time in
// its certificate, so a state is nothing but certificates.
func next(now time.Time, s state, p policy) decision {
	signers := s.signers(now)
	if len(signers) == 0 {
		return decision{do: addAuthority, why: "there is no CA that can sign"}
	}
	if newest := s.authorities[signers[len(signers)-1]]; !now.Before(due(newest.cert)) {
		return decision{do: addAuthority, why: "two thirds of the life of the CA are over"}
	}
	signer, trusted := s.signer(now, signers, p.overlap)
	why, urgent := s.lacks(now, signer, p.names)
	if why != "" && (urgent || trusted || s.authorities[signer].signed(s.serving.cert)) {
		return decision{do: issue, authority: signer, why: why}
	}
	if i := s.useless(now, signer); i >= 0 {
		return decision{do: dropAuthority, authority: i, why: "all that the CA signed has expired"}
	}
	return decision{again: s.again(now, p.overlap)}
}

// signers are the indexes of the CAs that can sign, oldest first.
func (s state) signers(now time.Time) []int {
	var signers []int
	for i, a := range s.authorities {
		if a.key != nil && validAt(a.cert, now) {
			signers = append(signers, i)
		}
	}
	return signers
}

// signer is the CA that should sign: the newest one whose overlap is over. trusted is false if there is none; then it is
// the oldest, which most clients trust.
func (s state) signer(now time.Time, signers []int, overlap time.Duration) (index int, trusted bool) {
	for _, i := range slices.Backward(signers) {
		if !now.Before(s.authorities[i].made().Add(overlap)) {
			return i, true
		}
	}
	return signers[0], false
}

// lacks returns why the serving certificate must be replaced. It is urgent if no client accepts the current one, so that a
// CA that clients do not trust yet makes nothing worse.
func (s state) lacks(now time.Time, signer int, names []string) (why string, urgent bool) {
	switch {
	case s.serving == nil:
		return "there is no usable certificate", true
	case !validAt(s.serving.cert, now):
		return "the certificate is not valid now", true
	case !s.authorities[signer].signed(s.serving.cert):
		return "a newer CA signs from now on", false
	// One that ends with its CA cannot be replaced by one that lasts longer.
	case !now.Before(due(s.serving.cert)) && s.serving.cert.NotAfter.Before(s.authorities[signer].cert.NotAfter):
		return "two thirds of the life of the certificate are over", false
	case !covers(s.serving.cert, names):
		return "the certificate lacks a name", false
	}
	return "", false
}

// useless is the index of a CA whose certificates have all expired and that signs no more, or -1.
func (s state) useless(now time.Time, signer int) int {
	return slices.IndexFunc(s.authorities[:signer], func(a authority) bool { return !now.Before(s.neededUntil(a)) })
}

// neededUntil is when the last certificate of a CA expires, or the CA itself.
func (s state) neededUntil(a authority) time.Time {
	var until time.Time
	for _, c := range s.retired {
		if a.signed(c) && c.NotAfter.After(until) {
			until = c.NotAfter
		}
	}
	if s.serving != nil && a.signed(s.serving.cert) && s.serving.cert.NotAfter.After(until) {
		until = s.serving.cert.NotAfter
	}
	if a.cert.NotAfter.Before(until) {
		until = a.cert.NotAfter
	}
	return until
}

// again is the first moment after now at which something in the state is due.
func (s state) again(now time.Time, overlap time.Duration) time.Time {
	moments := []time.Time{due(s.serving.cert), s.serving.cert.NotAfter}
	for _, a := range s.authorities {
		moments = append(moments, a.cert.NotBefore, a.made().Add(overlap), due(a.cert), s.neededUntil(a), a.cert.NotAfter)
	}
	moments = slices.DeleteFunc(moments, func(t time.Time) bool { return !t.After(now) })
	return slices.MinFunc(moments, time.Time.Compare) // the CA that signs expires after now
}
