// Parts of this package that fuzzing calls directly. Nothing that ships imports this file.
export { EtcdClient } from "./lease/etcd.ts";
export { LeaseReader } from "./lease/reader.ts";
