package hook

// TenantName is the name of the hook's tenant; empty is the default tenant.
func (h *Hook) TenantName() string {
	if h.Tenant == nil {
		return ""
	}
	return h.Tenant.Name
}

// MainQueue is the default queue of the hook.
func (h *Hook) MainQueue() string { return h.Tenant.Own(MainQueue) }

// Own returns the name under which a queue of the tenant is known: each tenant has its queues for itself.
func (t *Tenant) Own(queue string) string {
	if t == nil || queue == "" {
		return queue
	}
	return t.Name + "/" + queue
}
