package snapshot

import "fmt"

// ReadItems returns the items of the set with this digest, in order, from a store of roots and
// pages under their digests. It trusts no store and checks all data from read: the root against
// digest, each page against the root, the order over all pages and the number of items. A
// mismatch is a [*DigestError], a newer format a [*versioned.FormatError]; errors of read are
// wrapped. ReadItems does not read the bodies: callers read each when they need it, and check it
// with [Verify].
func ReadItems(digest string, read func(digest string) ([]byte, error)) ([]Item, error) {
	body, err := readVerified(digest, read)
	if err != nil {
		return nil, fmt.Errorf("snapshot: reading root %s: %w", digest, err)
	}
	root, err := DecodeRoot(body)
	if err != nil {
		return nil, err
	}
	var items []Item
	for _, d := range root.Pages {
		page, err := readPage(d, read)
		if err != nil {
			return nil, fmt.Errorf("snapshot: reading page %s of root %s: %w", d, digest, err)
		}
		if n := len(items); n > 0 && items[n-1].object().Compare(page.Items[0].object()) >= 0 {
			return nil, fmt.Errorf("snapshot: root %s: page %s is out of order", digest, d)
		}
		items = append(items, page.Items...)
	}
	if len(items) != root.Objects {
		return nil, fmt.Errorf("snapshot: root %s: objects: %d are on the pages, want %d", digest, len(items), root.Objects)
	}
	return items, nil
}

func readPage(digest string, read func(string) ([]byte, error)) (Page, error) {
	body, err := readVerified(digest, read)
	if err != nil {
		return Page{}, err
	}
	return DecodePage(body)
}

func readVerified(digest string, read func(string) ([]byte, error)) ([]byte, error) {
	body, err := read(digest)
	if err != nil {
		return nil, err
	}
	return body, Verify(body, digest)
}
