// Long work as a line: what is being done, how far it is, and a way to stop it.
import {element, follow, post} from "./page.js";

export class Progress {
  constructor(box, side) {
    Object.assign(this, {box, side});
    this.words = element("p", {className: "step", role: "status"});
    this.time = element("span", {className: "time"});
    this.bar = element("progress", {max: 1, "aria-label": "Progress"});
    this.cancel = element("button", {type: "button"}, "Cancel");
    box.replaceChildren(element("div", {className: "working"}, this.words, this.bar, element("div", {className: "row"}, this.time, this.cancel)));
    box.hidden = true;
  }

  async run(id) {
    let began = null;
    this.box.hidden = false;
    this.cancel.disabled = false;
    this.cancel.onclick = async () => {
      this.cancel.disabled = true;
      await post("/" + this.side + "/jobs/" + encodeURIComponent(id) + "/cancel", {}).catch(() => {});
    };
    const clock = setInterval(() => {
      if (began !== null) this.time.textContent = Math.floor((Date.now() - began) / 1000) + " s";
    }, 250);
    try {
      return await follow(this.side, id, (job) => {
        began = began ?? Date.now() - 1000 * job.seconds;
        const step = job.step || job.state;
        const text = step[0].toUpperCase() + step.slice(1) + " …";
        if (this.words.textContent !== text) this.words.textContent = text;
        if (job.share === null) this.bar.removeAttribute("value"); else this.bar.value = job.share;
      });
    } finally {
      clearInterval(clock);
      this.box.hidden = true;
    }
  }
}
