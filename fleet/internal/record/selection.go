package record

// SelectionPerPage bounds a page of picked clusters, in names.
const SelectionPerPage = 3000

// SelectionPage is a part of the clusters that a selection picked, ascending.
type SelectionPage struct {
	Format   int      `json:"format"`
	Clusters []string `json:"clusters"`
}

// SelectionPages is how many pages the clusters of a selection take.
func SelectionPages(clusters int) int { return (clusters + SelectionPerPage - 1) / SelectionPerPage }
