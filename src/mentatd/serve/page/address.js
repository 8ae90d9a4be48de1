// What is open stands in the page's own address, so that a link to it can be shared.

export function read(search) {
  const query = new URLSearchParams(search);
  return { model: query.get("model"), group: query.get("group"), find: query.get("find") ?? "" };
}

export function href({ model = null, group = null, find = "" }) {
  const query = new URLSearchParams();
  if (model !== null) query.set("model", model);
  if (group !== null) query.set("group", group);
  if (find !== "") query.set("find", find);
  const search = query.toString();
  return search === "" ? "/" : `/?${search}`;
}

// The link to one row of the models: with its group where the model alone would not tell.
export function hrefOf(row, models) {
  const alone = models.filter((other) => other.model === row.model).length === 1;
  return href({ model: row.model, group: alone ? null : row.group });
}
