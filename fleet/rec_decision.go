package fleet

// decisionPerPage bounds a page of picked clusters, in names.
const decisionPerPage = 3000

// decisionPage is a part of the clusters that a decision picked, ascending.
type decisionPage struct {
	Format   int      `json:"format"`
	Clusters []string `json:"clusters"`
}

// decisionPages is how many pages the clusters of a decision take.
func decisionPages(clusters int) int { return (clusters + decisionPerPage - 1) / decisionPerPage }
