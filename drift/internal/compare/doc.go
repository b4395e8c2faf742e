// Package compare finds the differences between an object of the hub and an object of a member.
// [Compile] turns the hub's object and the schema of its kind into a [Tree], once. [Tree.Compare]
// walks a member's object along it, often, and allocates nothing if there is no difference. A
// [Finding] may contain secrets; package drift redacts it.
package compare
