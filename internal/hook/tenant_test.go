package hook

import "testing"

func TestTenantOf(t *testing.T) {
	tenants := []*Tenant{{Name: "shop", Folder: "shop/"}, {Name: "eu", Folder: "shop/eu/"}, {Name: "paint", Folder: "paint/"}}
	for name, want := range map[string]string{
		"shop/a.sh": "shop", "shop/sub/a.sh": "shop", "shop/eu/a.sh": "eu", "shop/eu.sh": "shop", "shopping/a.sh": "", "shop": "", "a.sh": "",
		"sub/shop/a.sh": "", "paint/shop/a.sh": "paint",
	} {
		got := ""
		if of := TenantOf(tenants, name); of != nil {
			got = of.Name
		}
		if got != want {
			t.Errorf("the tenant of %s is %q, want %q", name, got, want)
		}
	}
}
