package record

// CheckObject is a check object that may be on a cluster. It is written before the object is applied, and deleted once that is
// gone: what an engine leaves behind that dies is removed by another one.
type CheckObject struct {
	Format int `json:"format"`
	// Run and RunUID are the run that measures, Epoch is that of its lease.
	Run    string `json:"run"`
	RunUID string `json:"runUID"`
	Epoch  int64  `json:"epoch"`
	// Cluster and ClusterUID are where the object is, Check is the name of what it measures.
	Cluster    string `json:"cluster"`
	ClusterUID string `json:"clusterUID,omitempty"`
	Check      string `json:"check"`
}

// CheckObjectsPrefix begins the keys of the check objects.
const CheckObjectsPrefix = "checkobject/"

// CheckObjectKey is that of the object of a check, of which id tells those of a placement on a cluster apart.
func CheckObjectKey(placement, cluster, id string) string {
	return CheckObjectsPrefix + placement + "/" + cluster + "/" + id
}
