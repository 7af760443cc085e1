"""The data files tacit can load: name, checksum and what must be known about each."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CATALOGUE", "Entry"]


@dataclass(frozen=True)
class Entry:
    """One data file.

    Attributes
    ----------
    file, sha256 : str
        File name and checksum of its content.
    source : str
        Where the rows come from; the file is a prepared copy of them.
    kind : {"regression", "binary", "multiclass"}
        What the target is.
    task_word : str
        What a task is called where the file does not name its tasks.
    summary, terms, missing : str
        Origin and traps; terms of use as far as known; how missing values are marked.
    """

    file: str
    source: str
    sha256: str
    kind: str
    task_word: str
    summary: str
    terms: str
    missing: str = ""


CATALOGUE: dict[str, Entry] = {
    "school": Entry(
        file="school.npz",
        source="bristol.ac.uk/cmm (ILEA567), or the data of MALSAR",
        sha256="f7a090460dd47b53e9013b0e4060aa4471b0638345eb0ba6b77fdc54e21ca7ac",
        kind="regression",
        task_word="school",
        summary=(
            "ILEA school data (Goldstein 1991): exam scores of London secondary-school "
            "students, a task per school. Features follow the source's code book; the "
            "source's constant column is left out."
        ),
        terms=(
            "research use; no data licence in the sources (Centre for Multilevel Modelling, "
            "Bristol)."
        ),
    ),
    "mnist": Entry(
        file="mnist.npz",
        source="github.com/facebookresearch/qmnist",
        sha256="9c888d050365a6981a0e27329fc4bee806a30d3543b889bef0a9e061d31c3b20",
        kind="multiclass",
        task_word="writer",
        summary=(
            "MNIST digits with the NIST writer of every image (from QMNIST's reconstruction). "
            "Pixels 0 to 255. Rows 0 to 59,999 are the official training part."
        ),
        terms="usually given as CC BY-SA 3.0.",
    ),
    "fashion_mnist": Entry(
        file="fashion_mnist.npz",
        source="github.com/zalandoresearch/fashion-mnist",
        sha256="6e0ea75e7a37ad86c77b2b03136e3cf4d91ad2768e4fe5a408a5c89731512c8c",
        kind="multiclass",
        task_word="task",
        summary=(
            "Fashion-MNIST: clothing images, pixels 0 to 255, 7,000 per class. There are no "
            "natural tasks; build them by rotation or label skew."
        ),
        terms="MIT, Zalando SE.",
    ),
    "femnist": Entry(
        file="femnist_pmtl_test.npz",
        source="leaf.cmu.edu",
        sha256="1b88837bb075013ef2ba0f4d0874cc9a7ac90fda38c77157ed1a21be60ea856d",
        kind="multiclass",
        task_word="writer",
        summary=(
            "FEMNIST by writer, 62 classes: the test file of a published federated split; its "
            "training file is not included. Background is 255 (white). Two images are "
            "duplicates. Split within writers yourself."
        ),
        terms="research use; derived from NIST SD19 through LEAF.",
    ),
    "har": Entry(
        file="har.npz",
        source="archive.ics.uci.edu/dataset/240",
        sha256="53e0d41a9ac0f022ad8e67ebc94eab5b4383bdb244ba50398f90f9ff22c160b2",
        kind="multiclass",
        task_word="subject",
        summary=(
            "UCI human activity recognition by smartphone: the 21 subjects of the official "
            "training part. Windows overlap, so random splits within a subject are "
            "optimistic. The source scaled the features."
        ),
        terms="UCI lists CC BY 4.0; the original README forbids commercial use.",
    ),
    "heart_disease": Entry(
        file="heart_disease.npz",
        source="archive.ics.uci.edu/dataset/45",
        sha256="c73cf727a14181bd78dd987c2724f8e1b293867fdb4ecdb46f31807e18ebdc3d",
        kind="binary",
        task_word="hospital",
        summary=(
            "UCI heart disease at four hospitals: Cleveland, Hungarian (Budapest), "
            "Switzerland (Zurich and Basel), VA Long Beach. Switzerland has 8 negatives only."
        ),
        terms=(
            "UCI lists CC BY 4.0; name the investigators A. Janosi, W. Steinbrunn, M. "
            "Pfisterer and R. Detrano in publications."
        ),
        missing=(
            "NaN; `ca` is missing in 96 to 99 % of rows outside Cleveland; `chol` = 0 (all "
            "Swiss rows, 49 VA rows) is an unmarked missing value."
        ),
    ),
    "landmine": Entry(
        file="landmine.npz",
        source="Xue et al. 2007, the authors' page",
        sha256="81ef7ca09976e8ab52ca5c82aefb34c636d2046d9e610491b1f38153567c971a",
        kind="binary",
        task_word="field",
        summary=(
            "Landmine detection (Xue et al. 2007) in 29 fields; 6 % of rows are mines. Fields "
            "1 to 15 and 16 to 29 are usually described as foliated and bare ground."
        ),
        terms="research use; no licence stated.",
    ),
    "parkinsons": Entry(
        file="parkinsons.npz",
        source="archive.ics.uci.edu/dataset/189",
        sha256="f64635c21f68a72b63744f523c3d6efa51f8199d9bd9f0ef19e7647a0fe07ba5",
        kind="regression",
        task_word="patient",
        summary=(
            "UCI Parkinsons telemonitoring, a task per patient; the target is total UPDRS. "
            "`age` and `sex` are constant within a task."
        ),
        terms="UCI lists CC BY 4.0.",
    ),
    "vehicle": Entry(
        file="vehicle_ditto_train.npz",
        source="github.com/litian96/ditto",
        sha256="6685cd73d1a2d2985f2c22db34fc44ee63b0df1dc426ff1d97e5a23fd40c9618",
        kind="binary",
        task_word="sensor",
        summary=(
            "Vehicle sensors, 7 to 534 rows each: a subset of the original, the training file "
            "of a published federated split. Features were standardised per sensor by the "
            "source."
        ),
        terms="repository MIT; original terms unknown.",
    ),
    "chem97": Entry(
        file="chem97.npz",
        source="cran.r-project.org/package=mlmRev",
        sha256="9baa71706fa444916bc257adcf519abd8ba5dbc668b311e975396f676b1e111f",
        kind="regression",
        task_word="authority",
        summary=(
            "A-level chemistry scores 1997 (mlmRev::Chem97), a task per local education authority."
        ),
        terms="GPL (mlmRev).",
    ),
    "diabetes130": Entry(
        file="diabetes130.npz",
        source="archive.ics.uci.edu/dataset/296",
        sha256="c9dc85f2247cd91eb1fb14056e59d64f3dda4ef87dca5beb2253276987ce39ca",
        kind="binary",
        task_word="specialty",
        summary=(
            "Diabetes 130-US hospitals 1999 to 2008: 101,766 encounters of 71,518 patients. "
            "The public file has no hospital id; tasks are medical specialties. The target is "
            "readmission within 30 days. The 49 features were coded from the raw columns."
        ),
        terms="UCI lists CC BY 4.0.",
    ),
    "office_caltech": Entry(
        file="office_caltech_surf.npz",
        source="Gong et al. 2012, the authors' page",
        sha256="c687b08d76764edcb8bc05790ff7486336dc27f1d1e855724998de68c1f9d4d2",
        kind="multiclass",
        task_word="domain",
        summary="Office-Caltech10 objects in four domains, counts of 800 SURF words.",
        terms="research use (Saenko et al. 2010, Griffin et al. 2007).",
    ),
    "newsgroup": Entry(
        file="newsgroup_comp_vs_sci.npz",
        source="qwone.com/~jason/20Newsgroups",
        sha256="00566520463ef13bb9587b66ffa855b29dd1259dee883a116c658bf2957701da",
        kind="binary",
        task_word="task",
        summary=(
            "20 Newsgroups, comp against sci: two tasks of different subgroups, 2,000 word "
            "counts; the vocabulary is not known."
        ),
        terms="research use; no data licence.",
    ),
    "yeast": Entry(
        file="multi_outcome_yeast.npz",
        source="mulan.sourceforge.net/datasets-mlc.html",
        sha256="4e1aebd71e87fc73b9b79e257f7e5ad187f687e647e31cfbe09afca18827095a",
        kind="binary",
        task_word="outcome",
        summary="Yeast gene functions: 14 binary outcomes of the same rows.",
        terms="research use; no licence stated.",
    ),
    "stackex_cs": Entry(
        file="multi_outcome_stackex_cs.npz",
        source="mulan.sourceforge.net/datasets-mlc.html (stackex)",
        sha256="e3512c2d3852aaa1391f7922462f6aef594a354395e3f456317574c74b20898a",
        kind="binary",
        task_word="tag",
        summary=(
            "Stack Exchange computer-science questions, word counts, 274 tags as binary "
            "outcomes of the same rows; no user ids."
        ),
        terms="CC BY-SA (Stack Exchange content).",
    ),
}
